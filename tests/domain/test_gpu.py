"""What a GPU's name means (domain.md §4; case O26)."""

import pytest

from domain import gpu

FAMILIES = {
    "NVIDIA A100-SXM4-80GB": ("A100-SXM4-80GB", "A100", 80),
    "A100-SXM4-40GB": ("A100-SXM4-40GB", "A100", 40),
    "NVIDIA A100 80GB PCIe": ("A100-PCIE-80GB", "A100", 80),
    "NVIDIA A100-PG509-200": ("A100-PG509-200", "A100", 40),
    "NVIDIA A800 80GB PCIe LC": ("A800-PCIE-LC-80GB", "A800", 80),
    "NVIDIA A10": ("A10-PCIE-24GB", "A10", 24),
    "NVIDIA A10G": ("A10G-PCIE-24GB", "A10G", 24),
    "NVIDIA H100 80GB HBM3": ("H100-SXM5-80GB", "H100", 80),
    "NVIDIA H100 NVL": ("H100-NVL-94GB", "H100", 94),
    "NVIDIA H200": ("H200-SXM5-141GB", "H200", 141),
    "NVIDIA H20-3e": ("H20-3E-SXM5-141GB", "H20", 141),
    "NVIDIA GH200 144G HBM3e": ("GH200-144GB", "GH200", 144),
    "NVIDIA B200": ("B200-SXM6-180GB", "B200", 180),
    "NVIDIA GB200": ("GB200-186GB", "GB200", 186),
    "NVIDIA L40S": ("L40S-PCIE-48GB", "L40S", 48),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": ("RTXPRO6000-SERVER-96GB", "RTXPRO6000", 96),
    "Tesla T4": ("T4-PCIE-16GB", "T4", 16),
    "Tesla P100-PCIE-16GB": ("P100-PCIE-16GB", "P100", 16),
    "Tesla V100-SXM2-32GB": ("V100-SXM2-32GB", "V100", 32),
}


@pytest.mark.parametrize(("name", "expected"), FAMILIES.items())
def test_a_known_name_gives_product_family_and_nominal_memory(name: str, expected: tuple[str, str, int]) -> None:
    found = gpu.lookup(name)
    assert (found.product, found.model, found.memory_gb) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "Graphics Device",
        "NVIDIA PG506-232",
        "NVIDIA PG509-210",
        "H800XM-80C",
        "NVIDIA H200-7-141C",
        "H100_NVLINK_80GB",
        "nvidia-h100-mega-80gb",
        "NVIDIA H100 80GB",
        "nvidia h100 pcie",
    ],
)
def test_o26_a_name_that_is_not_in_the_table_is_other(name: str) -> None:
    assert gpu.lookup(name).model == gpu.OTHER


def test_a_prefix_of_a_known_name_is_not_that_gpu() -> None:
    assert gpu.lookup("NVIDIA A1").model == gpu.OTHER
    assert gpu.lookup("NVIDIA A100").model == gpu.OTHER
    assert gpu.lookup("NVIDIA A100-SXM4-40GB-4C").model == gpu.OTHER


@pytest.mark.parametrize("suffix", [" MIG 3g.71gb", " MIG 1g.18gb+me", " MIG 1c.3g.71gb", " MIG 4g.96gb-me"])
def test_the_mig_suffix_that_frameworks_append_is_no_part_of_the_name(suffix: str) -> None:
    assert gpu.lookup("NVIDIA H200" + suffix) == gpu.lookup("NVIDIA H200")


def test_only_a_whole_mig_suffix_is_taken_off() -> None:
    assert gpu.lookup("NVIDIA H200 MIG").model == gpu.OTHER
    assert gpu.lookup("NVIDIA H200 MIG 3g.71gb x").model == gpu.OTHER


def test_a_name_sold_in_several_sizes_takes_the_size_the_driver_measured() -> None:
    assert gpu.lookup("NVIDIA H100") == gpu.Model("H100-SXM5", "H100")
    assert gpu.lookup("NVIDIA H100", 95830) == gpu.Model("H100-SXM5-94GB", "H100", 94)


def test_the_nominal_size_wins_over_what_a_driver_measures() -> None:
    assert gpu.lookup("Tesla T4", 15360).memory_gb == 16


def test_every_name_has_a_family_that_the_table_lists_or_is_known_to_be_other() -> None:
    models = {gpu.lookup(name).model for name in gpu.names()}
    assert models == gpu.families() | {gpu.OTHER}


def test_a_family_is_found_from_family_product_and_name() -> None:
    assert gpu.family("H100") == gpu.family("H100-SXM5-80GB") == gpu.family("NVIDIA H100 PCIe") == "H100"
    assert gpu.family("H100-SXM9") == gpu.OTHER


def test_the_table_has_a_version() -> None:
    assert gpu.TABLE_VERSION >= 1
