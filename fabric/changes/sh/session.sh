# The part of a guard's sh text that keeps changes off the interface which carries the session.
#
# It compares the devices of the change with the interface of the route to the caller and all interfaces below that: by
# name, and by slot. A slot is bus and device of a PCI address without the function, which the ports of one card share.
# A virtual function also counts as its physical one. What cannot be determined is forbidden. Tests set `FABRIC_SYSFS`
# to use a /sys of their own.
#
# Defines `allowed PEER DEVICES`, which answers 77 and ends the call if one of the devices must not be touched.

sys=${FABRIC_SYSFS:-/sys}
slot_of() {
  for link in "$1" "$1/physfn"; do
    [ ! -e "$link" ] ||
      readlink -f "$link" | sed -n 's|.*/\([0-9a-f]\{4,\}:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f]\)\.[0-7]\(/.*\)*$|\1|p'
  done
}
below() {
  echo "$1"
  for lower in "$sys/class/net/$1"/lower_* "$sys/class/net/$1"/brif/*; do
    [ ! -e "$lower" ] || { lower=${lower##*/}; below "${lower#lower_}"; }
  done
  [ ! -r "$sys/class/net/$1/bonding/slaves" ] ||
    for lower in $(cat "$sys/class/net/$1/bonding/slaves"); do below "$lower"; done
}
out_of() { sed -n 's/.* dev \([^ ]*\).*/\1/p'; }
route_to() {
  case $1 in
    *%*) echo "${1#*%}" ;;
    *) ip -o route get "$1" | out_of ;;
  esac
}
session_interfaces() {
  if [ -n "$1" ]; then route_to "$1"; return; fi
  [ -z "$SSH_CONNECTION" ] || route_to "${SSH_CONNECTION%% *}"
  ip -o -4 route show default | out_of; ip -o -6 route show default | out_of
}
slots_of_device() {
  case $1 in ''|.*|*[!A-Za-z0-9._:@-]*) return 1 ;; esac
  if [ -e "$sys/class/infiniband/$1" ]; then
    slot=$(slot_of "$sys/class/infiniband/$1/device")
    if [ -r "$sys/class/infiniband/$1/parent" ]; then
      read -r lower <"$sys/class/infiniband/$1/parent"
      slot="$slot $lower $(slot_of "$sys/class/net/$lower/device")"
    fi
    [ -n "$slot" ] && echo "$slot"
  elif [ -e "$sys/class/net/$1" ]; then
    echo "$1"; slot_of "$sys/class/net/$1/device"
  else
    slot=$(slot_of "$sys/bus/pci/devices/$1"; slot_of "$sys/bus/pci/devices/0000:$1")
    [ -n "$slot" ] && echo "$slot"
  fi
}
allowed() {
  [ -n "$2" ] || return 0
  session=$(session_interfaces "$1")
  set -f; IFS=,; set -- $2; unset IFS; set +f
  [ -n "$session" ] || answer 77 forbidden "$1" the interface that carries the session cannot be told
  carriers=$(for interface in $session; do below "$interface"; done)
  places=$(for interface in $carriers; do echo "$interface"; slot_of "$sys/class/net/$interface/device"; done)
  for device; do
    slots=$(slots_of_device "$device") || answer 77 forbidden "$device" unknown device
    for slot in $slots; do
      for place in $places; do
        [ "$slot" != "$place" ] || answer 77 forbidden "$device" carries the session through $session
      done
    done
  done
}
