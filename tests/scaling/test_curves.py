"""Speed by width: interpolation, cleaning, and which source is asked first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shunter import clusters, toml_forms
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import ScalingError
from shunter.instances import CPU_POWER
from shunter.scaling import curves, deriving
from shunter.scaling.curves import Scaling, ScalingCurve, cleaned
from shunter.scaling.reading import parse

PLAIN = Cluster("plain", (NodeGroup(2, 8, "v100"),))


def test_one_gpu_has_speed_one_and_known_widths_their_efficiency():
    curve = ScalingCurve("m", ((2, 0.9), (4, 0.5)))
    assert curve.speeds(4)[0].tolist() == pytest.approx([0, 1, 1.8, 3 * (0.9 + (0.5 - 0.9) * 0.5849625), 2.0])


def test_beyond_the_last_width_the_efficiency_falls_as_over_the_last_doubling_but_speed_never_does():
    assert ScalingCurve("m", ((2, 0.8), (4, 0.64))).speed(8) == pytest.approx(8 * 0.512)
    assert ScalingCurve("m", ((2, 0.8), (4, 0.2))).speed(8) == pytest.approx(4 * 0.2)
    assert ScalingCurve("m", ((1, 1.0),)).speed(8) == 8


def test_across_machines_is_as_on_one_unless_said():
    curve = ScalingCurve("m", ((2, 0.9),), ((2, 0.4),))
    assert (curve.speed(2), curve.speed(2, machines=2)) == (1.8, 0.8)
    assert ScalingCurve("m", ((2, 0.9),)).speed(2, machines=2) == 1.8


def test_cleaned_efficiencies_never_rise_and_are_one_at_most():
    assert cleaned([1.54, 0.96, 1.33]) == pytest.approx([1.0, 0.98, 0.98])
    assert cleaned([0.4, 0.8, 0.3]) == pytest.approx([0.6, 0.6, 0.3])


def test_measured_goes_before_the_network_and_the_network_before_published():
    measured = (ScalingCurve("resnet50", ((2, 0.5),), source="site"),)
    with_tiers = clusters.load("qoredl-5gpu")
    assert Scaling(measured, with_tiers, curves.published()).curve("ResNet-50").source == "site"
    assert "network of cluster 'qoredl-5gpu'" in Scaling((), with_tiers, curves.published()).curve("resnet50").source
    assert "Gavel" in Scaling.usual(PLAIN).curve("resnet50", "v100").source
    assert Scaling.usual(PLAIN).curve("nobody knows") is None
    assert Scaling.usual(PLAIN).speed("nobody knows", 8) == 8


def test_the_network_makes_a_job_across_machines_slower_than_on_one():
    curve = Scaling.usual(clusters.load("qoredl-5gpu")).curve("vgg16")
    assert 1 < curve.speed(4) <= 4
    assert curve.speed(4, machines=2) < curve.speed(4)


def test_the_type_of_the_gpu_counts_and_an_unknown_one_is_taken_for_a_v100():
    scaling = Scaling.usual(PLAIN)
    assert scaling.speed("lm", 4, gpu_type="k80") != scaling.speed("lm", 4, gpu_type="v100")
    assert scaling.speed("lm", 4, gpu_type="h100") == scaling.speed("lm", 4, gpu_type="v100")


def test_the_published_curves_are_those_of_the_published_file(data):
    assert deriving.derive(data) == curves.published()
    shipped = Path(curves.__file__).with_name("published.toml").read_text("utf-8")
    assert shipped == deriving.text(deriving.derive(data))


def test_the_power_of_cpu_is_that_of_the_published_iteration_times(data):
    assert round(deriving.cpu_power(data), 2) == CPU_POWER
    powers = deriving.cpu_powers(data)
    assert len(powers) == 103
    assert np.quantile(powers, (0.1, 0.5, 0.9)).round(1).tolist() == [-0.1, 0.3, 0.8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[curve]]\nmodel = "m"\ntogether = { 2 = 1.5 }', "less than or equal to 1"),
        ('[[curve]]\nmodel = "m"\ntogether = { two = 0.5 }', "together"),
        ('[[curve]]\nmodel = "m"\ntogether = { 0 = 0.5 }', "from 1 to"),
        ('[[curve]]\nmodel = "m"\ntogether = { 2 = 0.5, 02 = 0.4 }', "together.02"),
        ('[[curve]]\nmodel = "m"\ntogether = { 2 = 1e-320 }', "greater than or equal to 0"),
        ('[[curve]]\nmodel = "m"\ntogether = { 2 = 0.5 }\n' * 2, "is given twice"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(text, said):
    with pytest.raises(ScalingError, match=said) as caught:
        parse(text, "site.toml")
    assert "site.toml" in str(caught.value)


def test_a_site_s_file_is_read(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text('[[curve]]\nmodel = "m"\ntogether = { 4 = 0.5, 2 = 0.75 }\n')
    assert Scaling.usual(PLAIN, path).speed("m", 2) == 1.5


def test_of_many_mistakes_only_those_that_are_shown_are_looked_for(monkeypatch):
    """Each takes as long as the file: with one in every line, hours."""
    looked = []
    monkeypatch.setattr(toml_forms, "_line_of", lambda *_: looked.append(1) or 1)
    wrong = "".join(f"{width}=9\n" for width in range(1, 65))
    with pytest.raises(ScalingError, match="and 59 more"):
        parse(f'[[curve]]\nmodel="m"\n[curve.together]\n{wrong}', "f.toml")
    assert len(looked) == toml_forms.MOST_SHOWN
