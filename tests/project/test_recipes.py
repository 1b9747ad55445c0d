"""Recipes: for clusters with fake batch systems, for build servers in a changed repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.clusters import dask, end, free_address, scheduler, wait_for
from support.pages import shown_files
from support.runs import CHUNKS, ROOT, environment, journal, plan, sweep, write_plan
from support.store_samples import digest

import sweep as package
from sweep.runs.running import run

RECIPES = Path(package.__file__).parent / "recipes"
PAGE = (ROOT / "docs" / "howto" / "build_server.md").read_text(encoding="utf-8")

# Like SLURM, it kills the remaining processes at the end of a job, because a worker may still be
# looking for its scheduler.
SRUN = """#!/bin/bash
trap 'kill -KILL $first $second 2>/dev/null' TERM
[ "$1" = --overlap ] && shift
"$@" & first=$!
"$@" & second=$!
wait
"""

SUBMIT = """#!/bin/bash
script=${{1:-}}
[ -n "$script" ] || {{ script=$(mktemp "{folder}/job.XXXXXX"); cat > "$script"; }}
cp "$script" "{folder}/last_job"
cp "$script" "{folder}/copy.$$"
setsid bash "{folder}/copy.$$" > "{folder}/log.$$" 2>&1 < /dev/null &
echo $! > "{folder}/job.$!.id"
echo "Submitted batch job $!"
"""

CANCEL = """#!/bin/bash
kill -KILL -- "-$1"
"""


def shim(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def sweep_command(folder: Path, *options: str) -> None:
    code = "import sys; from sweep.cli import main; sys.exit(main())"
    words = " ".join([sys.executable, *options])
    shim(folder, "sweep", f'#!/bin/bash\nexec {words} -c "{code}" "$@"\n')


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Path]:
    """Provide a folder of commands; end remaining jobs at the end."""
    folder = tmp_path / "bin"
    folder.mkdir()
    sweep_command(folder, "-W", "error")
    shim(folder, "dask", f'#!/bin/bash\nexec {sys.executable} -m dask "$@"\n')
    yield folder
    for path in folder.glob("job.*.id"):
        subprocess.run([folder / "cancel", path.read_text().strip()], capture_output=True)


def shell(command: list[str | Path], commands: Path, **more: str) -> subprocess.CompletedProcess:
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=commands.parent, env=environment(PATH=path, **more), capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("local") / "small.zarr"
    run(plan(), path)
    return digest(path)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_script__is_sound(path):
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_recipes__are_listed_and_shown(tmp_path):
    listed = sweep("list", "recipes", cwd=tmp_path).stdout.splitlines()
    names = [line.split()[0] for line in listed]
    kinds = (".sh", ".py", ".yml")
    found = (path.name for path in RECIPES.iterdir() if path.suffix in kinds)
    assert names == sorted(name for name in found if not name.startswith("_"))
    for name in names:
        shown = sweep("show", name, cwd=tmp_path).stdout
        assert shown.rstrip("\n") == (RECIPES / name).read_text(encoding="utf-8").rstrip("\n")


@pytest.mark.slow
def test_slurm_script(commands, local):
    """Scheduler, two workers and the run are in one job; a second job finds the run finished."""
    shim(commands, "srun", SRUN)
    write_plan(commands.parent / "small.toml")
    script = ["bash", RECIPES / "slurm.sh", "small.toml", "--no-report"]
    done = shell(script, commands, SLURM_JOB_ID="17", SLURM_CPUS_PER_TASK="2")
    assert done.returncode == 0, done.stderr
    assert "small.zarr: 84 configurations x 1 model in " in done.stdout
    assert digest(commands.parent / "small.zarr") == local
    assert len(journal(commands.parent / "small.zarr")) == CHUNKS
    assert not list(commands.parent.glob("*.json"))
    assert "finished before" in shell(script, commands, SLURM_JOB_ID="18").stdout


@pytest.mark.slow
def test_slurm_script__ends_with_the_run(commands):
    """A mistake in the plan ends the job with the run's message and exit code."""
    shim(commands, "srun", SRUN)
    waits = {"SLURM_JOB_ID": "17", "SWEEP_PATIENCE_S": "30"}
    done = shell(["bash", RECIPES / "slurm.sh", "nowhere.toml"], commands, **waits)
    assert done.returncode == 2
    assert "sweep: " in done.stderr and "nowhere.toml" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "submit", "cancel", "head"),
    [
        ("slurm", "sbatch", "scancel", "#SBATCH -A physics"),
        ("pbs", "qsub", "qdel", "#PBS -A physics"),
        ("lsf", "bsub", "bkill", '#BSUB -P "physics"'),
    ],
)
def test_jobqueue(commands, local, system, submit, cancel, head):
    """Two jobs with one worker each end with the run."""
    pytest.importorskip("dask_jobqueue")
    shim(commands, submit, SUBMIT.format(folder=commands))
    for name in (cancel, "cancel"):
        shim(commands, name, CANCEL)
    write_plan(commands.parent / "small.toml")
    command = [sys.executable, "-m", "sweep.recipes.jobqueue", system, "small.toml"]
    options = ["--jobs", "2", "--account", "physics", "--walltime", "00:10"]
    done = shell([*command, *options], commands)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("small.zarr: 84 configurations in ")
    assert digest(commands.parent / "small.zarr") == local
    assert head in (commands / "last_job").read_text()


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[tuple[str, list[str]]]:
    """Provide two network namespaces, connected by a bridge with a local address."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the command ip")
    tag = f"{os.getpid() % 100_000}"
    bridge, names = f"swb{tag}", [f"swn{tag}a", f"swn{tag}b"]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", "10.213.77.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            here, there = f"swh{tag}{number}", f"swt{tag}{number}"
            ip("netns", "add", name)
            ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            ip("link", "set", here, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.213.77.{number + 2}/24", "dev", there)
            ip("-n", name, "link", "set", there, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield "10.213.77.1", names
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


@pytest.mark.slow
def test_workers_on_other_hosts(namespaces, local, tmp_path):
    """Each worker has its own network, as on another node."""
    host, names = namespaces
    address = free_address(host)
    processes = [scheduler(address, tmp_path, "--scheduler-file", "scheduler.json")]
    try:
        for number, name in enumerate(names):
            options = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
            place = ["--host", f"10.213.77.{number + 2}"]
            prefix = ["ip", "netns", "exec", name]
            processes.append(dask("worker", address, *options, *place, cwd=tmp_path, prefix=prefix))
        wait_for(address, 2)
        run(plan(), tmp_path / "a.zarr", scheduler_file=tmp_path / "scheduler.json")
    finally:
        for process in processes:
            end(process)
    assert digest(tmp_path / "a.zarr") == local


# ---------------------------------------------------------------------------- build servers

PLAN = """
schema = 1
name = "guard"
kernels = ["./saxpy.toml"]
devices = ["gtx_280", "gtx_980_paper"]
models = ["hong_kim", "wang_chu"]

[axes]
block_size = [64, 128, 256]
"""


def steps() -> dict[str, str]:
    """Return the commands of the workflow for build servers, by name."""
    workflow = (RECIPES / "github_performance.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.fixture
def repository(tmp_path):
    """Provide a repository in which steps of the workflow run, and whose last commit can change."""
    folder, place = tmp_path / "bin", tmp_path / "repository"
    folder.mkdir()
    place.mkdir()
    sweep_command(folder)
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    surroundings = {
        **{k: v for k, v in environment().items() if not k.startswith("GIT_")},
        **dict.fromkeys(names, "test"),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "BASE": "HEAD~1",
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=place, env=surroundings, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    kernel = shown_files()["saxpy.toml"]
    (place / "plan.toml").write_text(PLAN)
    (place / "saxpy.toml").write_text(kernel)
    run("git init -q . && git add -A && git commit -qm before").check_returncode()

    def changed(old: str, new: str) -> None:
        assert old in kernel
        (place / "saxpy.toml").write_text(kernel.replace(old, new))
        run("git add -A && git commit -q --allow-empty -m after").check_returncode()

    return run, changed, place


def words(table: str) -> list[list[str]]:
    """Return the words of a table's lines, ignoring the widths of columns and the tolerance."""
    return [
        line.split() for line in table.splitlines() if line and line[:4] not in ("----", "the ")
    ]


@pytest.mark.slow
def test_slower_kernel_fails_the_build(repository):
    run, changed, place = repository
    changed("registers_per_thread = 10", "registers_per_thread = 96")
    predicted = run(steps()["predict"])
    assert predicted.returncode == 0, predicted.stderr
    compared = run(steps()["compare"])
    assert compared.returncode == 1
    assert (place / "changes.png").stat().st_size > 10_000
    shown = re.search(
        r"^```text\n\$ sweep compare before.zarr after.zarr\n(.*?)"
        r"^\$ (sweep compare before.zarr after.zarr --list 1)\n(.*?)^\.\.\.\n```$",
        PAGE, re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    assert shown is not None
    listed = run(shown[2]).stdout
    assert words(shown[1]) == words(compared.stdout)
    assert words(shown[3]) == words(listed)[: len(words(shown[3]))]


@pytest.mark.slow
def test_harmless_change_passes_the_build(repository):
    run, changed, _ = repository
    changed("y = a x + y", "y = a * x + y")
    assert run(steps()["predict"]).returncode == 0
    compared = run(steps()["compare"])
    assert compared.returncode == 0, compared.stdout
    assert "slower by more than 2 % in 0 of 4 groups" in compared.stdout
