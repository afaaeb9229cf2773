"""What the book and `cudasim` must say alike, though neither imports from the other."""

from fidelity import recording
from tools.record import cards


def test_the_outputs_and_the_answers_of_a_card_have_one_name():
    assert (cards.MAKERS, cards.DETAILS) == (recording.MAKERS, recording.DETAILS)
    for name in (
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
        "Tesla T4",
        "AMD Instinct MI300X OAM",
    ):
        assert cards.card_folder([name]) == recording.card_folder([name])
        assert cards.card_folder([name] * 2) == recording.card_folder([name] * 2)
