from pathlib import Path

from openskills.bench.counting import estimating
from openskills.bench.library import Contents, read_library
from openskills.bench.tasks import Task, usual_tasks
from openskills.bench.token_report import TokenReport, Way, token_report
from openskills.sync import run
from openskills.tokens import estimate
from tests.bench.shelves import BODY, DOC, contents, on_disk


def reported(tmp_path: Path, *skills: Contents, tasks: tuple[Task, ...] = ()) -> TokenReport:
    catalog, settings = on_disk(tmp_path, *skills)
    library = read_library(catalog.skills)
    return run(token_report(catalog, library, tasks or usual_tasks(library.skills), estimating(), settings))


def test_the_library_is_measured_by_layer(tmp_path: Path) -> None:
    report = reported(tmp_path, contents("forms", "a.md", "b.md"), contents("plain"))
    assert (report.skills, report.counted, report.exact) == (2, "estimate", False)
    assert report.docs == 2 * estimate(DOC)
    assert abs(report.bodies - 2 * estimate(BODY)) <= 2
    assert 0 < report.overview < report.bodies


def test_a_task_that_needs_no_skill_pays_for_none_with_progressive_disclosure(tmp_path: Path) -> None:
    task, *_ = reported(tmp_path, contents("forms", "a.md"), contents("plain")).tasks
    assert task.name == "needs no skill"
    assert task.cost(Way.PROGRESSIVE).by_layer["body"] == 0
    assert task.cost(Way.BODIES).by_layer["body"] >= 3 * 2 * estimate(BODY)
    assert task.cost(Way.EVERYTHING).by_layer["docs"] == 3 * estimate(DOC)


def test_full_injection_is_charged_for_fewer_requests(tmp_path: Path) -> None:
    _, forms, *_ = reported(tmp_path, contents("forms", "a.md")).tasks
    assert [forms.cost(way).requests for way in Way] == [4, 3, 2]


def test_layers_and_requests_add_up(tmp_path: Path) -> None:
    report = reported(tmp_path, contents("forms", "a.md"), contents("plain"))
    for way in Way:
        cost = report.cost(way)
        assert sum(cost.by_layer.values()) == cost.total
        assert cost.total == sum(one.total for task in report.tasks for one in task.ways[way])
        assert 0 < cost.new < cost.total


def test_many_skills_are_cheaper_to_disclose_and_few_small_ones_are_not(tmp_path: Path) -> None:
    many = [contents(f"skill-{number:02d}", body=BODY * 3) for number in range(40)]
    assert reported(tmp_path / "many", *many).saved(Way.BODIES) > 0.5
    assert reported(tmp_path / "few", contents("tiny", body="Do it.")).saved(Way.BODIES) < 0


def test_a_skill_that_the_list_has_no_room_for_is_searched_for_and_that_is_paid_for(tmp_path: Path) -> None:
    skills = [
        Contents(f"skill-{number:04d}", f"Makes kind {number} of reports. " + "Use for it. " * 20, "x")
        for number in range(700)
    ]
    _, one, *_ = reported(tmp_path, *skills).tasks
    assert one.cost(Way.PROGRESSIVE).requests == 4
