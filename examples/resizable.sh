#!/bin/sh
#SBATCH --gpus=4 --requeue --open-mode=append --comment="shunter: requeue=yes resize=1-4"
# A job that Shunter may resize, with one worker per GPU: sbatch resizable.sh python resizable_training.py work/
# SIGUSR1 reaches this script and all tasks. The tasks write a checkpoint and exit with code 75; then the job queues
# itself again, and is given another number of GPUs while it waits. Before a task listens, it must ignore the signal.
trap '' USR1
workers=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' | wc -l)
unset SLURM_GPUS # as submitted, whatever the job has by now
srun --ntasks="$workers" --gpus="$workers" --overcommit sh -c 'trap "" USR1; exec "$@"' task "$@"
code=$?
if [ $code -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; else exit $code; fi
