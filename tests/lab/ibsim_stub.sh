#!/bin/sh
# The InfiniBand tools of gpu001, real ones, on the simulated fabric of ibsim; and cat, which finds its adapter mlx5_0.
#
# Three things that ibsim lacks are put right here. It knows no routes that begin with a LID and go on by ports, so
# ibportstate is told the route to the LID ("paths": LID, node, route). A closed port of ibsim keeps its link, so the
# cable is unplugged on ibsim's console first. And a port that is opened again gets its cable back there.
sim=/usr/lib/$(uname -m)-linux-gnu/umad2sim/libumad2sim.so
sys=/sys/class/infiniband
really() { LD_PRELOAD=$sim /usr/sbin/ibportstate -D "$route" "$port" "$1"; }
console() { echo "$1 \"$node\"[$port]" >"$FABRIC_LAB_IBSIM/console"; }
[ "$1" != -C ] || shift 4 # the adapter of ibsim has another name than the one that is given
case ${0##*/} in
  cat)
    case "$*" in *"$sys/"*) ;; *) exec /bin/cat "$@" ;; esac
    for one; do shift; set -- "$@" "$sys/ibsim0${one#"$sys/mlx5_0"}"; done
    LD_PRELOAD=$sim exec /bin/cat "$@" ;;
  ibportstate)
    port=$2
    while read -r lid node route; do [ "$lid" != "$1" ] || break; done <"$FABRIC_LAB_IBSIM/paths"
    [ "$lid" = "$1" ] || { echo "ibportstate: the lab has no route to LID $1" >&2; exit 99; }
    if [ "$3" = disable ]; then
      console Unlink
      n=0; until really query | grep -q 'LinkState:[.]*Down'; do n=$((n + 1)); [ $n -lt 50 ] || exit 98; sleep 0.1; done
    fi
    said=$(really "$3"); status=$?
    printf '%s\n' "$said"
    [ "$3" != on ] || case $said in *Disabled*) console ReLink ;; esac
    exit $status ;;
  numactl|ib_write_bw) sleep 3; echo 'no device' >&2; exit 1 ;;
  *) LD_PRELOAD=$sim exec "/usr/sbin/${0##*/}" "$@" ;;
esac
