"""Topology XMLs in the form that NCCL_TOPO_DUMP_FILE gives them, written here: nodes as Frontier's, Perlmutter's and a
DGX A100's. Counts of links are those of the documented nodes; bus ids and CPU numbers are as such nodes have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# Frontier's links (docs.olcf.ornl.gov Frontier User Guide, node diagram): 4 in a package, then 2 or 1.
FRONTIER_LINKS = {
    **dict.fromkeys([(0, 1), (2, 3), (4, 5), (6, 7)], 4),
    **dict.fromkeys([(0, 6), (2, 4)], 2),
    **dict.fromkeys([(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)], 1),
}
FRONTIER_BUSES = ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")
FRONTIER_CPUS = (3, 1, 0, 2)  # of each package
PERLMUTTER_LINKS = dict.fromkeys([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], 4)
EPYC = 'arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="48"'
MI250X = 'class="0x038000" vendor="0x1002" device="0x7408" subsystem_vendor="0x1002" subsystem_device="0x0b0c"'
A100 = 'class="0x030200" vendor="0x10de" device="0x20b0" subsystem_vendor="0x10de" subsystem_device="0x134f"'
BRIDGE = 'class="0x060400" vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"'
NIC = 'class="0x020700" vendor="0x15b3" device="0x101b" subsystem_vendor="0x15b3" subsystem_device="0x0007"'
GEN4 = 'link_speed="16.0 GT/s PCIe" link_width="16"'
DGX_SWITCHES = ("c4", "c5", "c6", "c7", "c8", "c9")  # six NVSwitches, two links to each


def links_of(device: int, links: Mapping[tuple[int, int], int], buses: Sequence[str], name: str, tclass: str) -> str:
    """The elements of a device's links to others."""
    ends = sorted((b if a == device else a, count) for (a, b), count in links.items() if device in (a, b))
    lines = [f'<{name} target="0000:{buses[other]}:00.0" count="{count}" tclass="{tclass}"/>' for other, count in ends]
    return "\n        ".join(lines)


def net(dev: int, name: str, speed: int) -> str:
    return (
        f'<nic>\n        <net name="{name}" dev="{dev}" speed="{speed}" port="1" latency="0.000000" '
        f'guid="0x{0xA0 + dev:x}" maxconn="262144" gdr="1"/>\n      </nic>'
    )


def frontier(links: Mapping[tuple[int, int], int] | None = None, speed: str = GEN4) -> str:
    """Eight GCDs under four CPUs; a NIC of 200 Gb/s at each CPU, no nearer to one GCD of the package than to the other,
    and a slow one beside the first. The comment is as RCCL's own files have it, which XML does not allow."""
    links = FRONTIER_LINKS if links is None else links
    cpus = []
    for package, cpu in enumerate(FRONTIER_CPUS):
        gpus = "\n".join(
            f'''    <pci busid="0000:{FRONTIER_BUSES[dev]}:00.0" {MI250X} {speed}>
      <gpu dev="{dev}" sm="110" gcn="gfx90a" arch="38911" rank="{dev}" gdr="1">
        {links_of(dev, links, FRONTIER_BUSES, "xgmi", "0x038000")}
      </gpu>
    </pci>'''
            for dev in (2 * package, 2 * package + 1)
        )
        slow = f"\n    {net(4, 'bond0', 1000)}" if package == 0 else ""
        cpus.append(
            f'''  <cpu numaid="{cpu}" affinity="ffff0000,00000000,ffff0000,00000000" {EPYC}>
{gpus}
    <pci busid="0000:0{package + 1}:00.0" {NIC} {speed}>
      {net(package, f"hsn{package}", 200000)}
    </pci>{slow}
  </cpu>'''
        )
    head = "<!-----------------------------\n - A node of Frontier, by hand.\n ----------------------------->\n"
    return f'{head}<system version="2">\n' + "\n".join(cpus) + "\n</system>\n"


def perlmutter() -> str:
    """Four A100, a CPU and a NIC each; 4 NVLinks between every two."""
    buses = ("03", "41", "81", "c1")
    cpus = "\n".join(
        f'''  <cpu host_hash="0x8393fb66b8b750c5" numaid="{3 - dev}" affinity="ffff" {EPYC}>
    <pci busid="0000:{bus}:00.0" {A100} {GEN4}>
      <gpu dev="{dev}" sm="80" rank="{dev}" gdr="1">
        {links_of(dev, PERLMUTTER_LINKS, buses, "nvlink", "0x030200")}
      </gpu>
    </pci>
    <pci busid="0000:{int(bus, 16) - 1:02x}:00.0" {NIC} {GEN4}>
      {net(dev, f"hsn{dev}", 200000)}
    </pci>
  </cpu>'''
        for dev, bus in enumerate(buses)
    )
    return f'<system version="1">\n{cpus}\n</system>\n'


def dgx_a100() -> str:
    """Eight A100: two below a PCI switch with two NICs, 12 NVLinks of each to six NVSwitches, and a NIC of two ports
    for storage at one of the CPUs."""
    cpus = []
    for pair in range(4):
        below = [f"0000:{16 * pair + 2 + dev:02x}:00.0" for dev in range(4)]
        gpus = "\n".join(
            f'''      <pci busid="{below[each]}" {A100} {GEN4}>
        <gpu dev="{2 * pair + each}" sm="80" rank="{2 * pair + each}" gdr="1">
          {switched()}
        </gpu>
      </pci>'''
            for each in (0, 1)
        )
        nics = "\n".join(
            f'      <pci busid="{below[2 + each]}" {NIC} {GEN4}>\n'
            f"      {net(2 * pair + each, f'mlx5_{2 * pair + each}', 200000)}\n      </pci>"
            for each in (0, 1)
        )
        cpus.append(
            f'''  <cpu numaid="{2 * pair + 1}" affinity="ffff" {EPYC}>
    <pci busid="0000:{16 * pair + 1:02x}:00.0" {BRIDGE} {GEN4}>
{gpus}
{nics}
    </pci>
  </cpu>'''
        )
    storage = f"""  <cpu numaid="0" affinity="ffff" {EPYC}>
    <pci busid="0000:61:00.0" {NIC} {GEN4}>
      <nic>
        <net name="mlx5_8" dev="8" speed="200000" port="1" guid="0x64" maxconn="131072" gdr="1"/>
        <net name="mlx5_9" dev="9" speed="100000" port="2" guid="0x64" maxconn="131072" gdr="1"/>
      </nic>
    </pci>
  </cpu>"""
    return '<system version="1">\n' + "\n".join([*cpus, storage]) + "\n</system>\n"


def switched(switches: Iterable[str] = DGX_SWITCHES) -> str:
    return "\n          ".join(f'<nvlink target="0000:{bus}:00.0" count="2" tclass="0x068000"/>' for bus in switches)


def bare(gpus: Sequence[str], version: int = 1, nics: str = "") -> str:
    """The smallest file: devices under one CPU, each with the elements of its links, which go to 0000:0N:00.0."""
    devices = "".join(
        f'<pci busid="0000:0{dev}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{dev}" sm="80" gcn="gfx90a" rank="{dev}" gdr="1">{inside}</gpu></pci>\n'
        for dev, inside in enumerate(gpus)
    )
    return f'<system version="{version}"><cpu numaid="0" {EPYC}>\n{devices}{nics}</cpu></system>\n'


def link(target: int, count: int = 1, name: str = "nvlink") -> str:
    return f'<{name} target="0000:0{target}:00.0" count="{count}" tclass="0x030200"/>'
