"""The page that puts what is printed and ours side by side."""

from __future__ import annotations

from shunter.report.html.page import Section, code, facts, note, paragraph, points, table
from shunter.reproduce.claims import RULE
from shunter.reproduce.rltune import paper
from shunter.reproduce.rltune.grounds import SITES
from shunter.reproduce.rltune.listing import LEGEND, listings
from shunter.reproduce.rltune.study import RLTuneStudy
from shunter.reproduce.sheets import whole
from shunter.reproduce.writing import STAND_IN
from shunter.run_folder import versions

HOW = (
    "Agents learn from windows of 256 jobs of the first 70 % of a trace. Which of their rounds is kept is said"
    " by windows of the next 10 %. All are judged on windows of the last 20 %, which do not overlap. Fewer jobs"
    " make a window where there is no room for all windows.",
    "Every window begins on an idle cluster. Draws move arrivals by up to 30 s (Helios: put jobs into other"
    " virtual clusters), and are averaged first. Intervals are over windows and trainings.",
    "True run times are what RLTune's code has in training and in evaluation. Estimates: what the user's last"
    " two jobs took, or, where no user is named, jobs with as many GPUs.",
    "All have EASY backfilling unless they are called strict. RLTune's and RLScheduler's own tests only the"
    " time, and passes over jobs in the order of submission.",
    "An agent sees the 128 jobs submitted first. A model's order does not depend on its base policy, which"
    " counts in training alone; so Table 7 compares each model with each base.",
    "The ablation: naive has wait, estimate and size; pro has RLTune's features, two of them sampled, and its"
    " program for places (placement=weighed) when it is judged, not in training.",
    "RLTune of Philly was trained on Philly and is judged on the other traces as it is.",
)


def page(study: RLTuneStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    found, part = versions(), study.part
    about = [
        ("data", ", ".join(part.data)),
        ("windows, draws, trainings", f"{part.windows}, {part.draws}, {part.trainings}"),
        ("epochs of windows", f"{part.epochs} of {part.episodes}"),
        ("trainings", f"{len(study.trained)}, {study.cpu_s / 60:.0f} CPU minutes"),
        ("seed", str(part.seed)),
        ("shunter", found["shunter"]),
        ("on", found["platform"]),
    ]
    stand_in = [paragraph(STAND_IN)] if study.stands_in else []
    sections = [
        Section("What follows", [*stand_in, points(study.sentences())]),
        *(
            Section(listing.title, [table(listing.title, listing.heads, listing.rows), note(LEGEND)])
            for listing in listings(study, wide=True)
        ),
        Section("Data", [points([f"{SITES[name].title}: {SITES[name].about}" for name in part.data])]),
        Section("What can't be run", [points(paper.CANNOT)]),
        Section("How it was run", [points([*HOW, RULE])]),
        Section("What was run", [facts(about), code(command)]),
    ]
    lead = f"{paper.TITLE}: its tables, RLScheduler's and SchedInspector's, beside orders with the same information."
    return whole("RLTune", lead, sections, study.stands_in)
