# How one RoCE port of a host treats congestion: `show` reads values and `set` writes them, by names of ours.
#
# `sh -c TEXT fabric-rnic show|set DEVICE PORT NAME[=VALUE]...`, in one line, because a guard keeps one command a line:
# every command ends with a ;. Names: `pfc/3` (PFC of a priority, by dcb: 0 or 1), `np/3` and `rp/3` (who answers marks,
# who slows down: files of the driver of OFED or DOCA), anything else is a file of debugfs (cc_params of mlx5). `show`
# prints NAME=VALUE for each value that exists. `set` writes values that differ, and fails if they do not read back. May
# be run twice.

LC_ALL=C; export LC_ALL; set -f;
fail() { printf 'fabric-rnic: %s\n' "$*" >&2; exit 1; };
verb=$1 d=$2 p=$3; shift 3;
i=$(cat "/sys/class/infiniband/$d/ports/$p/gid_attrs/ndevs/0" 2>/dev/null);
[ -n "$i" ] || fail "$d has no interface";
l=$(readlink "/sys/class/infiniband/$d/device" 2>/dev/null);
file() {
    case $1 in
    [nr]p/*) printf '/sys/class/net/%s/ecn/roce_%s/enable/%s' "$i" "${1%/*}" "${1#*/}" ;;
    *) printf '/sys/kernel/debug/mlx5/%s/cc_params/%s' "${l##*/}" "$1" ;;
    esac;
};
value() {
    case $1 in
    pfc/*)
        for word in $(dcb pfc show dev "$i" prio-pfc); do
            case $word in
            "${1#pfc/}:on") echo 1 ;;
            "${1#pfc/}:off") echo 0 ;;
            esac;
        done ;;
    *) cat "$(file "$1")" 2>/dev/null ;;
    esac;
};
put() {
    case $1=$2 in
    pfc/*=1) dcb pfc set dev "$i" prio-pfc "${1#pfc/}:on" ;;
    pfc/*=0) dcb pfc set dev "$i" prio-pfc "${1#pfc/}:off" ;;
    *) printf '%s\n' "$2" | tee "$(file "$1")" >/dev/null ;;
    esac;
};
for one; do
    name=${one%%=*};
    there=$(value "$name");
    case $verb in
    show) [ -z "$there" ] || printf '%s=%s\n' "$name" "$there" ;;
    set)
        [ "$there" = "${one#*=}" ] || put "$name" "${one#*=}" || fail "$d: $name cannot be set";
        there=$(value "$name");
        [ "$there" = "${one#*=}" ] || fail "$d: $name is $there, not ${one#*=}" ;;
    esac;
done
