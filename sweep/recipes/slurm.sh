#!/bin/bash
# Evaluate a plan with all tasks of one SLURM job:
#     sbatch --ntasks=8 --cpus-per-task=4 slurm.sh PLAN [OPTIONS OF sweep run]
# The job ends with the run. Submitted again, it continues where the first one stopped.
#SBATCH --job-name=sweep
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --output=sweep-%j.log

# Activate the environment in which sweep is installed, unless the submitting shell has it:
# source /path/to/venv/bin/activate

set -euo pipefail

# Where every node sees it. The store (./NAME.zarr or --store) has to lie there too.
scheduler_file=${SWEEP_SCHEDULER_FILE:-$PWD/sweep-scheduler-$SLURM_JOB_ID.json}
rm -f "$scheduler_file"

# How long the parts wait for one another: nodes may be slow to load Python.
patience=${SWEEP_PATIENCE_S:-300}
export DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=${patience}s
export OMP_NUM_THREADS=1

started=()
stop() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    rm -f "$scheduler_file"
}
trap stop EXIT

dask scheduler --scheduler-file "$scheduler_file" --port 0 --no-dashboard &
started+=($!)

srun --overlap dask worker --scheduler-file "$scheduler_file" --no-dashboard --no-nanny \
    --nthreads "${SLURM_CPUS_PER_TASK:-1}" --memory-limit 0 --death-timeout "$patience" &
started+=($!)

sweep run "$@" --scheduler-file "$scheduler_file"
