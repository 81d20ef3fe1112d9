# Shared by the scripts here: where things are, and a server of one's own.
# Source it; it needs bash and changes to the project's folder.

set -euo pipefail

PG_MAJOR=${PG_MAJOR:-15}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_BIN=${PG_BIN:-/usr/lib/postgresql/$PG_MAJOR/bin}
export PG_CONFIG=$PG_BIN/pg_config
cd "$ROOT"

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# PostgreSQL refuses to run as root, so the work is done by an ordinary user. The
# program takes the place of setpriv: its process id is the one that we started.
BECOME_WORKER=()
if [ "$(id -u)" = 0 ]; then
    WORKER=${OP_LEDGER_USER:-postgres}
    as_root() { "$@"; }
else
    WORKER=$(id -un)
    as_root() { sudo "$@"; }
fi
as_worker() { "${BECOME_WORKER[@]}" env HOME="$WORK" PATH="$PATH" "$@"; }

# A copy of the tree that the ordinary user may write; gone at the end, with all
# servers that were started from it.
WORK=
STOP=()
make_workplace() {
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/op_ledger.XXXXXX")
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    mkdir "$WORK/tree"
    tar -C "$ROOT" --exclude=.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
        --exclude=tmp_check --exclude=results -cf - . | tar -C "$WORK/tree" -xf -
    if [ "$(id -u)" = 0 ]; then
        BECOME_WORKER=(setpriv --reuid="$WORKER" --regid="$(id -gn "$WORKER")" --init-groups)
        chown -R "$WORKER" "$WORK"
    fi
    chmod 755 "$WORK"
}

clean_up() {
    local status=$? pid
    for pid in "${STOP[@]:-}"; do
        [ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    if [ -n "$WORK" ] && [ -f "$WORK/data/postmaster.pid" ]; then
        as_worker "$PG_BIN/pg_ctl" -D "$WORK/data" -m immediate stop >/dev/null 2>&1 || true
    fi
    [ -z "$WORK" ] || rm -rf "$WORK"
    exit $status
}

# An extension in a folder of the tree: built by the ordinary user, installed where
# that PostgreSQL looks.
build_and_install() { # folder, arguments of make
    local folder=$WORK/tree/$1
    shift
    as_worker make -s -C "$folder" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "$@" >"$WORK/build.log" 2>&1 ||
        { cat "$WORK/build.log"; die "the build failed"; }
    as_root make -s -C "$folder" PG_CONFIG="$PG_CONFIG" install >>"$WORK/build.log" 2>&1 ||
        { cat "$WORK/build.log"; die "the installation failed"; }
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# A server of our own on a socket in $WORK; exports PGHOST, PGPORT, PGUSER, PGDATABASE.
start_server() {
    export PGHOST=$WORK PGPORT=5432 PGUSER=$WORKER PGDATABASE=postgres
    mkdir -p "$WORK/secrets"
    printf 'sk_test_not_a_real_secret\n' >"$WORK/secrets/stripe.key"
    [ "$(id -u)" != 0 ] || chown -R "$WORKER" "$WORK/secrets"
    as_worker "$PG_BIN/initdb" -D "$WORK/data" -A trust -E UTF8 --locale=C.UTF-8 -U "$WORKER" >"$WORK/initdb.log"
    as_worker tee -a "$WORK/data/postgresql.conf" >/dev/null <<CONF
shared_preload_libraries = 'op_ledger'
listen_addresses = ''
unix_socket_directories = '$WORK'
op_ledger.secret_dir = '$WORK/secrets'
max_worker_processes = 16
max_prepared_transactions = 10
$*
CONF
    as_worker "$PG_BIN/pg_ctl" -D "$WORK/data" -l "$WORK/server.log" -w start >/dev/null ||
        { cat "$WORK/server.log"; die "the server did not start"; }
}

# Starts a program of test/provider and waits for "listening PORT"; sets PORT.
start_listener() {
    local log=$WORK/$1.log i
    shift
    "${BECOME_WORKER[@]}" env HOME="$WORK" PATH="$PATH" "$@" >"$log" 2>&1 &
    STOP+=("$!")
    for i in $(seq 100); do
        PORT=$(awk '/^listening/ {print $2; exit}' "$log")
        [ -z "$PORT" ] || return 0
        kill -0 "${STOP[-1]}" 2>/dev/null || break
        read -rt 0.1 <> <(:) || true
    done
    cat "$log"
    die "$1 did not start"
}
