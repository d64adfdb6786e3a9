# shellcheck shell=bash
# The way from a scenario to a cross-check, the same on all machines. A site's script sets the variables below and calls all_steps.
#
#   ROOT ENV OUT                  the clone, its Python environment, the folder for all results (absolute paths)
#   SCENARIO PLANS SETTINGS       what is predicted and run; SETTINGS are key=value words for --set
#   TRAIN_SCENARIO TRAIN_SETTINGS the small model that is really trained
#   NODES RANKS_PER_NODE          one rank per device
#   BACKEND COMPUTE PRECISION     nccl or gloo; real, wait or none; of the matrix products that are measured
#   SIZES DEVICES_PER_PACKAGE     messages to measure; 2 on MI250X
#   TIMEOUT JOIN_TIMEOUT          seconds: without progress; until all ranks have come
#   STEPS                         any of: predict where measure replay train compare
#   SRUN                          array: srun's options at this site

DRY_RUN=${DRY_RUN:-0}
port=0
status=0

fail() {
    printf '%s: %s\n' "${SITE:-slurm}" "$*" >&2
    exit 2
}

# whole NAME MOST: stop unless the variable is a whole number from 1 to MOST. It is looked at as text before arithmetic, which would run
# what such a word as a[$(command)] says.
whole() {
    local value=${!1}
    if [[ ! $value =~ ^[1-9][0-9]{0,8}$ ]] || ((value > $2)); then
        fail "$1: got '${value:0:40}'; allowed: a whole number from 1 to $2"
    fi
}

# show WORD...: as one line that a shell would read as these words.
show() {
    local word line=
    for word in "$@"; do
        if [[ -z $word || $word == *[!a-zA-Z0-9_./:=,@%+-]* ]]; then printf -v word '%q' "$word"; fi
        line+=" $word"
    done
    printf '%s\n' "${line# }"
}

# run COMMAND: show it, and do it unless DRY_RUN=1.
run() {
    show "$@"
    if [[ $DRY_RUN != 1 ]]; then "$@"; fi
}

# attempt COMMAND: as run, but go on after a failure; the script ends with the code of the first.
attempt() {
    local code=0
    run "$@" || code=$?
    if ((status == 0)); then status=$code; fi
}

# setting NAME VALUE: export it, and show it. Every use has its source in a comment on the same line or on the line above.
setting() {
    show export "$1=$2"
    export "$1=$2"
}

# load MODULE...: in this order; stops where one is missing.
load() {
    local name
    for name in "$@"; do
        printf 'module load %s\n' "$name"
        if [[ $DRY_RUN == 1 ]]; then continue; fi
        set +u # the site's module function may read unset variables
        module load "$name" || fail "module load $name failed; see: module spider ${name%%/*}"
        set -u
    done
}

# submit SCRIPT OPTION...: outside of a job, hand the script to sbatch and stop; the job sees this shell's variables.
submit() {
    local script=$1
    shift
    if [[ -n ${SLURM_JOB_ID:-} ]]; then return; fi
    if [[ -z $ACCOUNT && $DRY_RUN != 1 ]]; then fail "ACCOUNT is not set; allowed: the project to charge"; fi
    export ROOT ENV OUT NODES STEPS
    run sbatch --nodes="$NODES" --time="$TIME" ${ACCOUNT:+--account="$ACCOUNT"} "$@" "$script"
    if [[ $DRY_RUN != 1 ]]; then exit 0; fi
}

# meet: where the ranks find each other.
meet() {
    local job=${SLURM_JOB_ID:-0} hosts=(FIRST-HOST)
    if [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
        if command -v scontrol >/dev/null; then
            mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
            if ((${#hosts[@]} == 0)); then fail "scontrol names no hosts for $SLURM_JOB_NODELIST"; fi
        elif [[ $DRY_RUN == 1 ]]; then
            hosts=("${SLURM_JOB_NODELIST%%,*}")
        else
            fail "scontrol is not there; allowed: to run in a Slurm job"
        fi
    elif [[ $DRY_RUN != 1 ]]; then
        fail "SLURM_JOB_NODELIST is not set; allowed: to run in a Slurm job (or DRY_RUN=1)"
    fi
    # source: docs.nersc.gov/machinelearning/launchers (first host of scontrol show hostnames)
    setting MASTER_ADDR "${hosts[0]}"
    # Ten ports per job, one per launch, below the kernel's own (32768 and up): two jobs that share a node rarely collide.
    port=$((10000 + job % 1990 * 10))
}

# ranks COMMAND: on every rank, with a port that no earlier launch of this job has used.
ranks() {
    setting MASTER_PORT "$port" # source: own choice, from the job's number; see meet
    port=$((port + 1))
    attempt srun "${SRUN[@]}" "$@"
}

# settings WORDS: as --set options, in the array `options`.
settings() {
    local word
    options=()
    for word in $1; do options+=(--set "$word"); done
}

# schedules FOLDER: the schedule files of all plans, in the array `files`.
schedules() {
    local plan
    files=()
    for plan in ${PLANS//,/ }; do files+=("$1/schedule-$plan.json"); done
}

wants() {
    [[ " $STEPS " == *" $1 "* ]]
}

all_steps() {
    local devices=$((NODES * RANKS_PER_NODE)) options files waits=()
    local limits=(--backend "$BACKEND" --timeout "$TIMEOUT" --join-timeout "$JOIN_TIMEOUT")
    local calibrated="library.calibration=$OUT/calibration.toml"
    run mkdir -p "$OUT"
    meet
    if wants predict; then # before anything is measured
        settings "$SETTINGS"
        run "$ENV/bin/simfrontier" export "$SCENARIO" --out "$OUT/sim" --plans "$PLANS" --devices "$devices" \
            ${options[@]+"${options[@]}"}
    fi
    if wants where; then
        ranks "$ENV/bin/python" "$ROOT/real/slurm/where.py"
    fi
    if wants measure; then
        ranks "$ENV/bin/simfrontier-real" measure --out "$OUT/calibration.toml" --sizes "$SIZES" \
            --precision "$PRECISION" --devices-per-package "$DEVICES_PER_PACKAGE" "${limits[@]}"
        settings "$SETTINGS $calibrated"
        attempt "$ENV/bin/simfrontier" export "$SCENARIO" --out "$OUT/sim-calibrated" --plans "$PLANS" \
            --devices "$devices" "${options[@]}"
    fi
    if wants replay; then
        schedules "$OUT/sim"
        if [[ $COMPUTE == wait ]]; then waits=(--waits "$OUT/sim-calibrated"); fi
        ranks "$ENV/bin/simfrontier-real" replay "${files[@]}" --out "$OUT/real" --compute "$COMPUTE" \
            ${waits[@]+"${waits[@]}"} "${limits[@]}"
    fi
    if wants train; then
        settings "$TRAIN_SETTINGS"
        run "$ENV/bin/simfrontier" export "$TRAIN_SCENARIO" --out "$OUT/train" --plans "$PLANS" --devices "$devices" \
            ${options[@]+"${options[@]}"}
        schedules "$OUT/train"
        ranks "$ENV/bin/simfrontier-real" train "${files[@]}" --json "$OUT/train/result.json" "${limits[@]}"
    fi
    if wants compare; then # exit code 1 of crosscheck says that they differ: decisive with the calibration only
        run "$ENV/bin/simfrontier" crosscheck "$OUT/sim" "$OUT/real" --out "$OUT/page-predicted" || true
        attempt "$ENV/bin/simfrontier" crosscheck "$OUT/sim-calibrated" "$OUT/real" --out "$OUT/page-calibrated"
    fi
    exit "$status"
}
