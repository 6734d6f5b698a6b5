#!/bin/sh
# cat, tee, dcb, mlxlink, mlxreg and ip of a lab host. What the kernel's files and the firmware say of an RNIC is what a real network
# interface of this host says; ip is the real one, and fails or waits as files in $FABRIC_LAB_TROUBLE/HOST say. Of the
# register ROCE_ACCL three fields are kept, in $FABRIC_LAB_TROUBLE/HOST.DEVICE.FIELD, as are PFC of a priority and files of
# DCQCN. nv is that of a switch at this host's address: of PFC (tx, rx) and ECN what is staged (HOST.staged.KEY), and 1 in
# HOST.applied.KEY where it is off. Its timer of commits that nobody confirms is not there: a guard's lease is shorter.
sys=/sys/class/infiniband
interface_of() { read -r interface <"$FABRIC_SYSFS/class/infiniband/$1/parent"; } 2>/dev/null
seen() {
  state='1: DOWN' physical='3: Disabled'
  read -r flags <"/sys/class/net/$interface/flags" || return 1
  [ $((flags & 1)) = 0 ] || physical='2: Polling'
  read -r carrier <"/sys/class/net/$interface/carrier" && [ "$carrier" = 1 ] && state='4: ACTIVE' physical='5: LinkUp'
  return 0
} 2>/dev/null
file() {
  path=${1#"$sys/"} device=${1#"$sys/"}
  interface_of "${device%%/*}" && seen || { echo "cat: $1: No such file or directory" >&2; return 1; }
  case $path in
    */ports/1/gid_attrs/ndevs/0) echo "$interface" ;;
    */ports/1/state) echo "$state" ;;
    */ports/1/phys_state) echo "$physical" ;;
    */ports/1/counters/link_downed) read -r count <"/sys/class/net/$interface/carrier_down_count"; echo "$count" ;;
    */ports/1/counters/*) echo 0 ;;
    *) echo "cat: $1: No such file or directory" >&2; return 1 ;;
  esac
}
kept_in() { kept=$FABRIC_LAB_TROUBLE/$FABRIC_LAB_HOST.$(printf %s "$1" | tr / _); }
case ${0##*/} in
  tee)
    case $1 in /sys/*) ;; *) exec /usr/bin/tee "$@" ;; esac
    kept_in "$1"; read -r value && echo "$value" >"$kept" ;;
  dcb)
    kept_in "$4.pfc"
    case "$2 $6" in "set "*:on) echo 1 >"$kept" ;; "set "*:off) echo 0 >"$kept" ;; esac
    read -r value <"$kept" || value=0
    [ "$value" = 1 ] && word=on || word=off
    [ "$2" = set ] || echo "prio-pfc 0:off 1:off 2:off 3:$word 4:off 5:off 6:off 7:off" ;;
  cat)
    case $1 in
      /sys/*/ecn/roce_*|/sys/*/cc_params/*) kept_in "$1"; read -r value <"$kept" || value=0; echo "$value"; exit ;;
    esac
    case "$*" in *"$sys/"*) ;; *) exec /bin/cat "$@" ;; esac
    status=0
    for one; do file "$one" || status=1; done
    exit $status ;;
  mlxlink)
    interface_of "$2" && seen || { echo "-E- no such device: $2" >&2; exit 1; }
    case $physical in 5*) word=Active ;; 3*) word=Disable ;; *) word=Polling ;; esac
    printf '{"result": {"output": {"Operational Info": {"State": "%s", "Physical state": "%s"}}}, ' \
      "$word" "${physical#?: }"
    echo '"status": {"code": 0, "message": "success"}}' ;;
  mlxreg)
    printf '%s\n' 'Sending access register...' '' 'Field Name | Data' ====
    for field in selective_repeat_forced_en roce_adp_retrans_en min_ack_timeout_limit_disabled; do
      kept_in "$2.$field"
      case " $*," in *[\ ,]"$field=1,"*) echo 1 >"$kept" ;; *[\ ,]"$field=0,"*) echo 0 >"$kept" ;; esac
      read -r value <"$kept" || value=0
      select=$field; [ "$field" != roce_adp_retrans_en ] || select=roce_adp_retrans
      printf '%s | 0x%08x\n' "$field" "$value" "${select}_field_select" 1
    done
    echo ==== ;;
  nv)
    trouble=$FABRIC_LAB_TROUBLE/$FABRIC_LAB_HOST
    off() { value=0; [ ! -s "$trouble.applied.$1" ] || read -r value <"$trouble.applied.$1"; [ "$value" = 1 ]; }
    case "$*" in
      'show qos roce')
        tx=enabled rx=enabled tc=0,3
        if off tx; then tx=disabled; fi; if off rx; then rx=disabled; fi; if off ecn; then tc='0  '; fi  # columns stay where they are
        sed "s/@tx/$tx/; s/@rx/$rx/; s/@tc/$tc/g" "$FABRIC_LAB_TROUBLE/../roce.txt" ;;
      'config show -o commands')
        echo 'nv set qos roce enable on'
        for key in tx rx; do if off $key; then echo "nv set qos pfc default-global $key disable"; fi; done
        if off ecn; then echo 'nv set qos congestion-control default-global traffic-class 3 ecn disable'; fi ;;
      'config diff')
        for key in tx rx ecn; do
          [ -s "$trouble.staged.$key" ] || continue
          read -r word value <"$trouble.staged.$key"; [ "$word" = set ] || value=
          printf -- '- %s:\n    qos:\n' "$word"
          case $key in
            ecn) printf '      congestion-control:\n        default-global:\n          traffic-class:\n            3:\n' ;;
            *) printf '      pfc:\n        default-global:\n' ;;
          esac
          printf '              %s:%s\n' "$key" "${value:+ $value}"
        done ;;
      'config apply --confirm-yes') echo confirmed ;;
      'config apply '*)
        for key in tx rx ecn; do
          [ -s "$trouble.staged.$key" ] || continue
          read -r word value <"$trouble.staged.$key"
          [ "$word $value" = 'set disable' ] && echo 1 >"$trouble.applied.$key" || echo 0 >"$trouble.applied.$key"
          rm "$trouble.staged.$key"
        done
        echo 'applied [rev_id: 2]' ;;
      'set qos '*) for last; do key=$value value=$last; done; echo "set $value" >"$trouble.staged.$key" ;;
      'unset qos '*) for last; do key=$last; done; echo unset >"$trouble.staged.$key" ;;
      *) echo "Error: The requested item does not exist: $*" >&2; exit 1 ;;
    esac ;;
  ip)
    trouble=$FABRIC_LAB_TROUBLE/$FABRIC_LAB_HOST
    if [ "$1 $2 $3 $5" = "link set dev up" ] && [ -s "$trouble" ]; then
      read -r left <"$trouble"
      if [ "$left" -gt 0 ]; then
        echo $((left - 1)) >"$trouble"; echo "RTNETLINK answers: Operation not permitted" >&2; exit 2
      fi
    fi
    PATH=/usr/sbin:/sbin:/usr/bin:/bin exec ip "$@" ;;
esac
