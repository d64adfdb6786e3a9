# shellcheck shell=bash
# The way from a scenario to a cross-check, the same on all machines. A site's script sets the variables below and calls
# submit and all_steps.
#
#   ROOT PYTHON_ENV OUT           the clone, its Python environment, the folder for all results (absolute paths; OUT may be
#                                 empty: a folder of the job's own). Not ENV: POSIX shells read the file $ENV at their start
#   CONTAINER                     words before every program of the environment, e.g. apptainer exec --rocm image.sif; then
#                                 PYTHON_ENV is not used
#   SCENARIO PLANS SETTINGS       what is predicted and run; SETTINGS are key=value words for --set
#   TRAIN_SCENARIO TRAIN_SETTINGS the small model that is really trained
#   TRAIN_NODES                   on at most so many of the job's nodes
#   ACCOUNT NODES TIME QOS PARTITION   what sbatch asks for; empty: the site's default
#   MODULES                       what is loaded first
#   RANKS_PER_NODE                one rank per device
#   BACKEND COMPUTE PRECISION     nccl or gloo; real, wait or none; of the matrix products that are measured
#   SIZES DEVICES_PER_PACKAGE     messages to measure; 2 on MI250X
#   TIMEOUT JOIN_TIMEOUT          seconds: without progress; until all ranks have come
#   ITERATIONS WARMUP             timed steps of a replay, and those before them; empty: as simfrontier-real has it
#   TRACE_RANKS                   a real trace holds the ops of at most so many ranks
#   STEPS                         any of STEP_NAMES
#   MEET_AT                       name or address of the first host: where the ranks find each other
#   BROADCAST ARCHIVE LOCAL_DISK  1: ranks start from ARCHIVE (conda-pack), unpacked in LOCAL_DISK of every node
#   SRUN                          array: srun's options at this site, beside nodes and tasks

STEP_NAMES=(predict where measure calibrate replay train compare)
declare -A LEAVES=([predict]=sim [measure]=calibration.toml [calibrate]=sim-calibrated [replay]=real) # in OUT
DRY_RUN=${DRY_RUN:-0}
CONTAINER=${CONTAINER:-}
ARCHIVE=${ARCHIVE:-$PYTHON_ENV.tar.gz}
LOCAL_DISK=${LOCAL_DISK:-}
MEET_AT=${MEET_AT:-name}
TRACE_RANKS=${TRACE_RANKS:-384} # 350 MB per plan of frontier-10b; crosscheck reads files of up to 512 MiB
ITERATIONS=${ITERATIONS:-}
WARMUP=${WARMUP:-}
PORTS_USED=${PORTS_USED:-0} # by earlier runs of the steps in this job
port=0
status=0
rank_env=$PYTHON_ENV     # the environment that ranks start from
declare -A outcome=()    # of each step: done, failed or skipped, and why
order=()                 # the steps with an outcome
absent=()                # what a dry run does not find
program=() options=() files=()
read -ra container <<<"$CONTAINER"

fail() {
    printf '%s: %s\n' "${SITE:-slurm}" "$*" >&2
    exit 2
}

if [[ $PYTHON_ENV == "$ROOT/.venv" && -n ${ENV:-} && $ENV != "$PYTHON_ENV" && -x ${ENV:-}/bin/python ]]; then
    fail "ENV is $ENV, which is not read; allowed: PYTHON_ENV for the Python environment"
fi

# whole NAME MOST: stop unless the variable is a whole number from 1 to MOST. It is looked at as text before arithmetic, which would run
# what such a word as a[$(command)] says.
whole() {
    local value=${!1}
    if [[ ! $value =~ ^[1-9][0-9]{0,8}$ ]] || ((value > $2)); then
        fail "$1: got '${value:0:40}'; allowed: a whole number from 1 to $2"
    fi
}

# one_of NAME WORD...: stop unless the variable is one of the words.
one_of() {
    local name=$1 value=${!1}
    shift
    if [[ " $* " != *" $value "* || -z $value || $value == *" "* ]]; then
        fail "$name: got '${value:0:40}'; allowed: $*"
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

# ---- the environment

# make_environment COMMAND...: into PYTHON_ENV by this command, or keep the one that is there (of `make setup-real`, or of an earlier SETUP=1).
make_environment() {
    if [[ -x $PYTHON_ENV/bin/python ]]; then
        printf '%s: kept: %s\n' "$SITE" "$PYTHON_ENV"
    else
        if [[ $DRY_RUN != 1 ]] && ! command -v "$1" >/dev/null; then fail "missing: the command $1 on this host (MODULES)"; fi
        run "$@"
    fi
}

# install_torch_and_simfrontier OPTION...: what `make setup-real` installs, but with the site's torch, by pip's options. The marks keep make from taking PyPI's instead.
install_torch_and_simfrontier() {
    run "$PYTHON_ENV/bin/python" -m pip install "torch==$TORCH" "$@"
    run "$PYTHON_ENV/bin/python" -m pip install -c "$ROOT/constraints.txt" -e "$ROOT[dev,serve,sweep]" array-api-compat zfpy numba
    run touch "$PYTHON_ENV/.installed" "$PYTHON_ENV/.installed-real"
}

# ---- what is missing

# look_for COMMAND...: those that are not on this host.
look_for() {
    local name
    for name in "$@"; do
        if ! command -v "$name" >/dev/null; then absent+=("the command $name on this host"); fi
    done
}

# look_for_files: the environment, and what the wanted steps read.
look_for_files() {
    if ((${#container[@]} > 0)); then
        look_for "${container[0]}"
        local word
        for word in "${container[@]:1}"; do
            if [[ $word == *.sif && ! -f $word ]]; then absent+=("the image $word of CONTAINER"); fi
        done
    elif [[ ! -x $PYTHON_ENV/bin/simfrontier ]]; then
        absent+=("the Python environment $PYTHON_ENV with simfrontier (PYTHON_ENV; SETUP=1 makes it)")
    fi
    if [[ $BROADCAST == 1 && ! -f $ARCHIVE ]]; then absent+=("the packed environment $ARCHIVE (ARCHIVE; PACK=1 makes it)"); fi
    if { wants predict || wants calibrate; } && [[ ! -f $SCENARIO ]]; then absent+=("the file $SCENARIO (SCENARIO)"); fi
    if wants train && [[ ! -f $TRAIN_SCENARIO ]]; then absent+=("the file $TRAIN_SCENARIO (TRAIN_SCENARIO)"); fi
}

# try_export STEP SCENARIO DEVICES SETTINGS: in a dry run, whether the step's schedules can be made: plans by that name, sizes that divide.
# Into a folder that is deleted again; where environment and scenario are there.
try_export() {
    local step=$1 file=$2 devices=$3 folder said
    if ! wants "$step" || [[ ! -f $file ]]; then return; fi
    tool simfrontier
    if ! command -v "${program[0]}" >/dev/null; then return; fi
    settings "$4"
    folder=$(mktemp -d)
    if ! said=$("${program[@]}" export "$file" --out "$folder/sim" --plans "$PLANS" --devices "$devices" \
        ${options[@]+"${options[@]}"} 2>&1); then
        absent+=("schedules for $step: ${said##*$'\n'}")
    fi
    rm -rf "$folder"
}

# end_dry_run: say what is missing; the exit code is 2 if anything is.
end_dry_run() {
    local line
    if [[ -z ${SLURM_JOB_ID:-} ]]; then
        if [[ -z $ACCOUNT ]]; then absent+=("the project to charge (ACCOUNT)"); fi
        look_for sbatch
    fi
    look_for srun scontrol
    if [[ -n $MODULES ]]; then look_for module; fi
    if [[ $BROADCAST == 1 ]]; then look_for sbcast; fi
    look_for_files
    try_export predict "$SCENARIO" $((NODES * RANKS_PER_NODE)) "$SETTINGS"
    try_export train "$TRAIN_SCENARIO" $((num_train_nodes * RANKS_PER_NODE)) "$TRAIN_SETTINGS"
    for line in ${absent[@]+"${absent[@]}"}; do printf 'missing: %s\n' "$line"; done
    if ((${#absent[@]} > 0)); then exit 2; fi
    exit 0
}

# ---- the job

# submit SCRIPT OPTION...: outside of a job, hand the script to sbatch and stop; the job sees this shell's variables.
submit() {
    local script=$1 step
    shift
    for step in $STEPS; do
        if [[ " ${STEP_NAMES[*]} " != *" $step "* ]]; then fail "STEPS: got $step; allowed: ${STEP_NAMES[*]}"; fi
    done
    BROADCAST=${BROADCAST:-0}
    one_of BROADCAST 0 1
    if [[ $BROADCAST == 1 && -z $LOCAL_DISK ]]; then fail "LOCAL_DISK is not set; allowed: a folder on every node's own disk"; fi
    one_of MEET_AT name address
    whole TRAIN_NODES 100000
    whole TRACE_RANKS 1000000
    num_train_nodes=$((TRAIN_NODES < NODES ? TRAIN_NODES : NODES))
    if [[ -z ${SLURM_JOB_ID:-} && -z ${IN_TURN:-} ]]; then
        if [[ $DRY_RUN != 1 ]]; then
            if [[ -z $ACCOUNT ]]; then fail "ACCOUNT is not set; allowed: the project to charge"; fi
            look_for sbatch
            look_for_files
            if ((${#absent[@]} > 0)); then fail "missing: ${absent[0]}; DRY_RUN=1 lists all"; fi
        fi
        export ROOT PYTHON_ENV NODES STEPS BROADCAST ${OUT:+OUT}
        run sbatch --nodes="$NODES" --time="$TIME" ${ACCOUNT:+--account="$ACCOUNT"} ${QOS:+--qos="$QOS"} \
            ${PARTITION:+--partition="$PARTITION"} "$@" "$script"
        if [[ $DRY_RUN != 1 ]]; then exit 0; fi
    fi
    OUT=${OUT:-$ROOT/reports/$SITE-${SLURM_JOB_ID:-JOB_ID}} # results of two jobs do not mix
}

# each_in_turn NAME SCRIPT: run the script once for each word of the variable, with that word as its value and results in OUT/WORD, and stop. The
# exit code is the first that is not 0.
each_in_turn() {
    local name=$1 script=$2 word code launches=0 step
    for step in where measure replay train; do
        if wants "$step"; then launches=$((launches + 1)); fi
    done
    for word in ${!name}; do
        code=0
        env "$name=$word" OUT="$OUT/$word" PORTS_USED="$PORTS_USED" IN_TURN=1 bash "$script" || code=$?
        PORTS_USED=$((PORTS_USED + launches))
        if ((status == 0)); then status=$code; fi
    done
    exit "$status"
}

# meet: where the ranks find each other.
meet() {
    local job=${SLURM_JOB_ID:-0} hosts=(FIRST-HOST) where
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
    where=${hosts[0]}
    if [[ $MEET_AT == address ]]; then find_address "${hosts[0]}"; fi
    # source: docs.nersc.gov/machinelearning/launchers (first host of scontrol show hostnames); OLCF's PyTorch page, "Master Address and Sockets" (hostname -i)
    setting MASTER_ADDR "$where"
    # Ten ports per job, one per launch, below the kernel's own (32768 and up): two jobs that share a node rarely collide.
    port=$((10000 + job % 1990 * 10 + PORTS_USED))
}

# find_address HOST: into meet's `where` the first address of the first host that others can reach, as hostname -i says there; its name where
# it says none.
find_address() {
    local word run_there=(srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --relative=0 hostname -i)
    show "${run_there[@]}"
    if [[ $DRY_RUN == 1 ]]; then
        where=ADDRESS-OF-$1
        return
    fi
    for word in $("${run_there[@]}" || true); do
        if [[ $word != 127.* && $word != ::1 && $word != fe80:* ]]; then
            where=$word
            return
        fi
    done
    printf '%s: hostname -i gives no address of %s that others can reach; its name is used\n' "$SITE" "$1"
}

# ---- steps

wants() {
    [[ " $STEPS " == *" $1 "* ]]
}

# conclude STEP OUTCOME [CODE]: note how a step ended; the script ends with the first code that is not 0.
conclude() {
    if [[ -z ${outcome[$1]:-} ]]; then order+=("$1"); fi
    outcome[$1]=$2
    if ((status == 0)); then status=${3:-0}; fi
}

is_done() {
    [[ ${outcome[$1]:-} == done* ]]
}

# attempt STEP COMMAND: as run, but go on after a failure.
attempt() {
    local step=$1 code=0
    shift
    run "$@" || code=$?
    if ((code == 0)); then conclude "$step" "done"; else conclude "$step" "failed ($code)" "$code"; fi
}

# ready STEP EARLIER...: whether what the step reads is there: of an earlier step that this job wants, only from this job. Concludes it if not.
ready() {
    local step=$1 earlier
    shift
    for earlier in "$@"; do
        if wants "$earlier"; then
            if ! is_done "$earlier"; then
                conclude "$step" "skipped ($earlier ${outcome[$earlier]%% *})"
                return 1
            fi
        elif [[ $DRY_RUN != 1 && ! -e $OUT/${LEAVES[$earlier]} ]]; then
            conclude "$step" "skipped (no ${LEAVES[$earlier]} of an earlier $earlier in OUT)" 2
            return 1
        fi
    done
}

# tool NAME [ENVIRONMENT]: how a program of the Python environment is started, in the array `program`.
tool() {
    if ((${#container[@]} > 0)); then program=("${container[@]}" "$1"); else program=("${2:-$PYTHON_ENV}/bin/$1"); fi
}

# settings WORDS: as --set options, in the array `options`.
settings() {
    local word
    options=()
    for word in $1; do options+=(--set "$word"); done
}

# simulate STEP SCENARIO FOLDER DEVICES: schedules and simulated traces, with `options`.
simulate() {
    tool simfrontier
    attempt "$1" "${program[@]}" export "$2" --out "$3" --plans "$PLANS" --devices "$4" ${options[@]+"${options[@]}"}
}

# ranks STEP NODES PROGRAM ARGUMENT...: on every rank of so many nodes, the first ones, with a port that no earlier launch of this job has used.
ranks() {
    local step=$1 nodes=$2 first=()
    tool "$3" "$rank_env"
    shift 3
    if ((nodes < NODES)); then first=(--relative=0); fi # rank 0 is on the host of MASTER_ADDR
    setting MASTER_PORT "$port" # source: own choice, from the job's number; see meet
    port=$((port + 1))
    attempt "$step" srun --nodes="$nodes" --ntasks=$((nodes * RANKS_PER_NODE)) --ntasks-per-node="$RANKS_PER_NODE" \
        ${first[@]+"${first[@]}"} --distribution=block --kill-on-bad-exit=1 "${SRUN[@]}" "${program[@]}" "$@"
}

# schedules FOLDER: the schedule files of all plans, in the array `files`.
schedules() {
    local plan
    files=()
    for plan in ${PLANS//,/ }; do files+=("$1/schedule-$plan.json"); done
}

# broadcast: the packed environment to every node's disk; ranks start from there, or from PYTHON_ENV where that fails.
broadcast() {
    local folder=$LOCAL_DISK/simfrontier-env
    local each=(srun --nodes="$NODES" --ntasks="$NODES" --ntasks-per-node=1 --kill-on-bad-exit=1)
    # OLCF [B]: a broadcast that fails may leave half a file, so nothing of it is used then.
    attempt broadcast sbcast -pf "$ARCHIVE" "$folder.tar.gz"
    if is_done broadcast; then attempt broadcast "${each[@]}" mkdir -p "$folder"; fi
    if is_done broadcast; then attempt broadcast "${each[@]}" tar -xzf "$folder.tar.gz" -C "$folder"; fi
    if is_done broadcast; then attempt broadcast "${each[@]}" "$folder/bin/python3" "$folder/bin/conda-unpack"; fi
    if is_done broadcast; then rank_env=$folder; else printf '%s: ranks start from %s\n' "$SITE" "$PYTHON_ENV"; fi
}

# crosscheck STEP FOLDER PAGE CODE: hold the traces of FOLDER against the real ones; CODE is the step's where they differ (exit code 1).
crosscheck() {
    local code=0
    tool simfrontier
    run "${program[@]}" crosscheck "$OUT/$2" "$OUT/real" --out "$OUT/$3" || code=$?
    case $code in
    0) conclude "$1" "done" ;;
    1) conclude "$1" "done (they differ)" "$4" ;;
    *) conclude "$1" "failed ($code)" "$code" ;;
    esac
}

all_steps() {
    local devices=$((NODES * RANKS_PER_NODE)) waits=() step line=
    local limits=(--backend "$BACKEND" --timeout "$TIMEOUT" --join-timeout "$JOIN_TIMEOUT")
    run mkdir -p "$OUT" || fail "OUT: $OUT cannot be made"
    meet
    if [[ $BROADCAST == 1 ]] && { wants where || wants measure || wants replay || wants train; }; then broadcast; fi
    if wants predict; then # before anything is measured
        settings "$SETTINGS"
        simulate predict "$SCENARIO" "$OUT/sim" "$devices"
    fi
    if wants where; then
        ranks where "$NODES" python3 "$ROOT/real/slurm/where.py"
    fi
    if wants measure; then
        ranks measure "$NODES" simfrontier-real measure --out "$OUT/calibration.toml" --sizes "$SIZES" \
            --precision "$PRECISION" --devices-per-package "$DEVICES_PER_PACKAGE" "${limits[@]}"
    fi
    if wants calibrate && ready calibrate measure; then
        settings "$SETTINGS"
        options+=(--set "library.calibration=$OUT/calibration.toml")
        simulate calibrate "$SCENARIO" "$OUT/sim-calibrated" "$devices"
    fi
    if wants replay && ready replay predict; then
        schedules "$OUT/sim"
        if [[ $COMPUTE == wait ]]; then
            if is_done calibrate || { ! wants calibrate && [[ -e $OUT/sim-calibrated ]]; }; then
                waits=(--waits "$OUT/sim-calibrated")
            else
                waits=(--waits "$OUT/sim")
            fi
        fi
        ranks replay "$NODES" simfrontier-real replay "${files[@]}" --out "$OUT/real" --compute "$COMPUTE" \
            ${ITERATIONS:+--iterations "$ITERATIONS"} ${WARMUP:+--warmup "$WARMUP"} \
            --trace-ranks "$TRACE_RANKS" ${waits[@]+"${waits[@]}"} "${limits[@]}"
    fi
    if wants train; then
        settings "$TRAIN_SETTINGS"
        simulate train "$TRAIN_SCENARIO" "$OUT/train" $((num_train_nodes * RANKS_PER_NODE))
        if is_done train; then
            schedules "$OUT/train"
            ranks train "$num_train_nodes" simfrontier-real train "${files[@]}" --json "$OUT/train/result.json" "${limits[@]}"
        fi
    fi
    if wants compare; then # that they differ is decisive with the calibration only
        if ready compare predict replay; then crosscheck compare sim page-predicted 0; fi
        if ! wants calibrate && [[ $DRY_RUN != 1 && ! -e $OUT/sim-calibrated ]]; then
            conclude compare-calibrated "skipped (no calibration was asked for)"
        elif ready compare-calibrated calibrate replay; then
            crosscheck compare-calibrated sim-calibrated page-calibrated 1
        fi
    fi
    if [[ $DRY_RUN == 1 ]]; then end_dry_run; fi
    for step in ${order[@]+"${order[@]}"}; do line+="; $step ${outcome[$step]}"; done
    printf '%s: steps: %s; results in %s; exit code %s\n' "$SITE" "${line#; }" "$OUT" "$status"
    exit "$status"
}
