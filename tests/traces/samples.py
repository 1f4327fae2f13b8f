"""Small files of every format, written by hand: what each kind of file looks like."""

from __future__ import annotations

import json
from pathlib import Path

HELIOS = """\
job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,ann,vcA,train,8,64,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:30,2020-04-01 01:00:30,3600,30
12,bob,vcB,prep,0,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:10,2020-04-01 00:00:20,10,0
13,ann,vcA,train,1,8,1,CANCELLED,2020-04-01 00:01:00,,2020-04-01 00:02:00,0,60
14,cyd,vcA,eval,16,128,2,FAILED,2020-04-01 00:02:00,2020-04-01 00:02:00,2020-04-01 00:02:05,5,0
"""
HELIOS_FLAT = """\
job_id,submit_time,gpu_num,duration,censored_48h,lucid_lgb_pred,lucid_ebm_pred
1,2020-03-18 04:01:39,32,172800,1,,
2,2020-03-18 04:01:40,1,20,0,12.5,
"""
PHILLY = json.dumps(
    [
        {
            "status": "Pass",
            "vc": "v1",
            "jobid": "app_1",
            "attempts": [
                {
                    "start_time": "2017-10-07 01:12:09",
                    "end_time": "2017-10-07 01:13:09",
                    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}],
                },
                {
                    "start_time": "2017-10-07 01:14:00",
                    "end_time": "2017-10-07 02:14:00",
                    "detail": [{"ip": "m3", "gpus": ["gpu0", "gpu1", "gpu2", "gpu3"]}],
                },
            ],
            "submitted_time": "2017-10-07 01:11:39",
            "user": "u1",
        },
        {"status": "Killed", "vc": "v1", "jobid": "app_2", "attempts": [], "submitted_time": "2017-10-07 01:11:40"},
        {
            "status": "Killed",
            "vc": "v2",
            "jobid": "app_3",
            "attempts": [
                {"start_time": "None", "end_time": "None", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
                {
                    "start_time": "2017-10-07 03:00:00",
                    "end_time": "2017-10-07 03:00:10",
                    "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
                },
            ],
            "submitted_time": "2017-10-07 02:00:00",
            "user": "u2",
        },
    ],
    indent=1,
)
PHILLY_FLAT = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,23608.0,6214e9
"""
PHILLY_SAMPLE = """\
job_id,arrival_time,duration,gpu_count,gpu_type,preemptible,workload_kind,priority,source_trace
ph-1,1507147646.0,3724.0,1,any,False,training,0,philly
ph-2,1508437586.0,103974.0,7,any,True,training,0,philly
"""
PAI_TASKS = """\
j1,worker,2.0,Terminated,1000.0,4600.0,600.0,29.296875,50.0,MISC
j1,ps,1.0,Terminated,1000.0,4600.0,400.0,10.0,,
j2,tensorflow,1.0,Failed,2000.0,2010.0,600.0,29.296875,25.0,T4
j3,PyTorchWorker,3.0,Terminated,3000.0,3100.0,600.0,,150.0,V100
j4,worker,1.0,Failed,,,600.0,,100.0,P100
"""
PAI_JOBS = """\
j1,i1,u1,Terminated,990.0,4600.0
j2,i2,u2,Failed,1990.0,2010.0
j3,i3,u1,Terminated,3001.0,3100.0
"""
PAI_FLAT = """\
job_id,arrival_s,service_sec,gpu_count
ali-1,16670.0,167731.0,8
ali-2,24488.0,172800.0,2
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-1,12000,16384,1,1000,,LS,Running,0,12537,0
pod-2,6000,12288,1,460,V100M16|V100M32,BE,Failed,427,1290,429
pod-3,20000,65536,0,0,,LS,Running,500,900,510
pod-4,88000,327680,8,1000,G3,Burstable,Succeeded,600,1769,600
pod-5,4000,1024,1,1000,,BE,Pending,700,800,
"""
SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
1,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
2,u1,1,0,16,Other,COMPLETED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,0.0
"""
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,\
fail_time,stop_time,duration,queue,gpu_time
d1,u2,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
"""
AAIC = """\
id, user, group, queue, nodes, gpus, walltime_req, termcode, time_submit, time_start, time_end, waittime, walltime
0, 7, 2, 3, 2, 4, 864000, 3, 1530244242, 1530249464, 1530494802, 5222, 245338
1, 8, 2, 0, 1, 1, 259200, 0, 1530355560, 1530355564, 1530395269, 4, 39705
"""
SWF = """\
; Version: 2.2
; UnixStartTime: 1000
; Queue:  0  interactive
    1        0     5   1451  128     -1    -1  128   3600    -1  1   1   1  -1 -1 -1 -1 -1
    2     1460    -1   3726    1     -1    -1   -1     -1  1024  0   4   1   2 -1  3  1 60
    3     1500    10     -1    4     -1    -1    4     -1    -1  5   4   1   2 -1 -1 -1 -1
"""
SACCT = """\
JobID|JobIDRaw|User|Account|Partition|QOS|JobName|State|Submit|Start|End|Timelimit|AllocTRES|ReqTRES|Dependency
100|100|ann|lab1|gpu|high|"train|COMPLETED|2024-05-01T10:00:00|2024-05-01T10:05:00|2024-05-01T12:05:00|1-02:00:00|\
billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=128800M,node=1|billing=16,cpu=16,gres/gpu=4,mem=128800M,node=1|
100.batch|100.batch||lab1||||COMPLETED|2024-05-01T10:05:00|2024-05-01T10:05:00|2024-05-01T12:05:00||\
cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=128800M,node=1||
101_4|105|bob|lab2|gpu|normal|sweep|CANCELLED by 1000|2024-05-01T10:01:00|2024-05-01T11:00:00|2024-05-01T11:00:30|\
UNLIMITED|cpu=8,gres/gpu:v100=1,gres/gpu=1,mem=64G,node=1|cpu=8,gres/gpu=1,mem=64G,node=1|afterok:100
101_[5-9]|106|bob|lab2|gpu|normal|sweep|PENDING|2024-05-01T10:01:00|Unknown|Unknown|UNLIMITED||\
cpu=8,gres/gpu=1,mem=64G,node=1|afterok:100
110+0|110|cyd|lab1|gpu|normal|het|TIMEOUT|2024-05-01T10:02:00|2024-05-01T10:02:00|2024-05-01T11:02:00|01:00:00|\
cpu=4,gres/gpu=2,mem=1T,node=1|cpu=4,gres/gpu=2,mem=1T,node=1|afterany:99
111|111|dan|lab1|cpu|normal|prep|COMPLETED|2024-05-01T10:02:00|2024-05-01T10:02:00|2024-05-01T11:02:00|\
Partition_Limit|cpu=4,mem=4G,node=1|cpu=4,mem=4G,node=1|
112|112|dan|lab1|gpu|normal|oops|CANCELLED by 7|2024-05-01T10:03:00|None|2024-05-01T10:04:00|01:00:00||\
cpu=4,gres/gpu=2,mem=4G,node=1|
"""
SACCT_GRES = """\
JobIDRaw|Submit|Start|End|ElapsedRaw|AllocGRES|NNodes|State
7|2019-01-01T00:00:00|2019-01-01T00:00:00|2019-01-01T00:10:00|600|gpu:tesla:2|3|COMPLETED
8|2019-01-01T00:00:00|2019-01-01T00:00:00|2019-01-01T00:10:00|600|gpu:1|1|COMPLETED
"""
JOBCOMP = """\
JobId=1 UserId=cc(1000) GroupId=cc(1000) Name=a test JobState=COMPLETED Partition=debug TimeLimit=5 \
StartTime=2025-04-23T03:22:30 EndTime=2025-04-23T03:23:30 NodeCnt=1 ProcCnt=4 \
Tres=cpu=4,mem=128800M,node=1,gres/gpu=2 Account= QOS= SubmitTime=2025-04-23T03:22:29 ExitCode=0:0
JobId=1 UserId=cc(1000) GroupId=cc(1000) Name=b JobState=FAILED Partition=debug TimeLimit=UNLIMITED \
StartTime=2025-04-23T04:22:30 EndTime=2025-04-23T04:23:30 NodeCnt=1 ProcCnt=4 \
Tres=cpu=4,mem=128800M,node=1,gres/gpu:p100=1 Account=x QOS= SubmitTime=2025-04-23T03:22:29 ExitCode=0:0
"""
SUPERCLOUD = """\
id_job,id_array_job,id_user,nodes_alloc,partition,state,timelimit,time_submit,time_start,time_end,tres_alloc,tres_req
16.0,0,42.0,1,normal,3,1440,1609535912,1609808470,1609808777,"1=20,2=170000,4=1,5=20,1002=2","1=20,2=170000,1002=2"
16.0,0,42.0,1,normal,11,4294967295,1609535912,1609808470,1609808777,"1=20,2=170000,4=1,5=20,1002=1",""
17.0,0,43.0,1,normal,3,1440,1609535912,1609808470,1609808777,"1=20,2=170000,4=1","1=20,2=170000,4=1,5=20"
"""
MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,priority
0,1,0,5853,dqn,128,2868294,46122000,490,446,1
1,8,201694000,8787,vgg16,128,4472936,201694000,509,435,0
"""
TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
"""
DALLY = json.dumps(
    [
        {
            "job_id": "1",
            "user": "u1",
            "jobname": "NA",
            "cpu_num": "16",
            "state": "COMPLETED",
            "model": "BERT",
            "total_iterations": "1000",
            "time_per_iteration": "0.5",
            "max_parallelism": "4",
            "arrival_time": "84725",
        },
        {"job_id": 2, "total_iterations": 10, "time_per_iteration": 1, "max_parallelism": 1, "arrival_time": 5},
    ]
)
RLTUNE = """\
deepspeech2-0_1,1201,0,25,8,-1,-1,-1,-1,-1,2,2,1,-1,0,-1,-1,-1,0
bert-2_1,1432,7,41,1,-1,-1,4,60,-1,2,7,2,-1,0,-1,-1,-1,1
"""
TABLE = """\
;Created At;Run Time (h);Num GPUs;Owner;Comment
0;01.02.2026 10:00;1,5;8;ann;first
1;01.02.2026 11:30;0,25;1;bob;
"""
JSON_LINES = """\
{"id": "a", "submitted_at": "2026-02-01T10:00:00Z", "runtime": 5400, "gpu_count": 8, "tags": ["x"]}
{"id": "b", "submitted_at": "2026-02-01T11:30:00Z", "runtime": "00:15:00", "gpu_count": 1}
"""
CSV = """\
job_id,submit,duration,gpus,user,after
a,0,3600,1,ann,
b,60,1800.5,8,bob,a
"""

SAMPLES: dict[str, dict[str, str]] = {
    "aaic": {"aaicwl.csv": AAIC},
    "acme": {"trace_seren.csv": SEREN, "trace_kalos.csv": KALOS},
    "csv": {"jobs.csv": CSV},
    "dally": {"jobs.json": DALLY},
    "helios": {"cluster_log.csv": HELIOS, "flat.csv": HELIOS_FLAT},
    "jobcomp": {"jobcomp.log": JOBCOMP},
    "muri": {"trace1.csv": MURI},
    "openb": {"openb_pod_list.csv": OPENB},
    "pai": {"pai_task_table.csv": PAI_TASKS, "flat.csv": PAI_FLAT},
    "philly": {"cluster_job_log": PHILLY, "flat.csv": PHILLY_FLAT, "sample.csv": PHILLY_SAMPLE},
    "rltune": {"trace.csv": RLTUNE},
    "sacct": {"sacct.txt": SACCT, "old.txt": SACCT_GRES},
    "supercloud": {"slurm-log.csv": SUPERCLOUD},
    "swf": {"log.swf": SWF},
    "table": {"export.csv": TABLE, "export.jsonl": JSON_LINES},
    "tiresias": {"60_job.csv": TIRESIAS},
}
FILES = [(form, name) for form, files in SAMPLES.items() for name in files]


def sample(folder: Path, form: str, name: str = "") -> Path:
    """The sample of a format (its first, unless named) as a file."""
    name = name or next(iter(SAMPLES[form]))
    path = folder / name
    path.write_text(SAMPLES[form][name], encoding="utf-8")
    return path
