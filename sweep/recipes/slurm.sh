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
keys=$(mktemp -d "$scheduler_file.XXXXXX") # only its owner can read it
stop() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    rm -rf "$scheduler_file" "$keys"
}
trap stop EXIT

# Whoever can talk to a scheduler can run code as its owner: TLS with a key of this job alone admits
# nobody else.
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=dask-internal \
    -keyout "$keys/key.pem" -out "$keys/certificate.pem" 2>/dev/null
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$keys/certificate.pem
for role in CLIENT SCHEDULER WORKER; do
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$keys/certificate.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$keys/key.pem"
done

dask scheduler --scheduler-file "$scheduler_file" --protocol tls --port 0 --no-dashboard &
started+=($!)

srun --overlap dask worker --scheduler-file "$scheduler_file" --protocol tls \
    --no-dashboard --no-nanny --nthreads "${SLURM_CPUS_PER_TASK:-1}" --memory-limit 0 --death-timeout "$patience" &
started+=($!)

sweep run "$@" --scheduler-file "$scheduler_file"
