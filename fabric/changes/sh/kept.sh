# The part of a guard's sh text that keeps, on disk, changes that a restart of the target does not undo.
#
# A change of another device, or of a file, outlives the target's /run, and so also the guard. So its folder is kept a
# second time: below /var/lib for a directory below /run, else beside it. With systemd, a unit starts its guard anew
# when the machine starts; without it, `list` shows the change and `revert` undoes it. Tests set `FABRIC_UNITS` and
# `FABRIC_SYSTEMD` to use a systemd of their own.
#
# In a kept folder the file `is-applied` says that something was altered, `is-reverted` that it is undone. A folder
# without the first, or with the second, is thrown away: by the call that wrote it, at the next start, or by the next
# arm.
#
# Needs *kept* beside *dir*; arm, apply, revert and the guard itself call it where a change is kept.

units=${FABRIC_UNITS:-/etc/systemd/system} systemd=${FABRIC_SYSTEMD:-/run/systemd/system}
unit_of() { echo "$units/fabric-undo-$1.service"; }
wanted_of() { echo "$units/multi-user.target.wants/fabric-undo-$1.service"; }
sound() {
  [ -d "$kept" ] || return 1
  [ -n "$sound" ] || if (whole "$kept") >/dev/null 2>&1; then sound=yes; else sound=no; fi
  [ "$sound" = yes ]
}
copied() {
  for name in owner boot peer devices term undo checks guard; do cat "$1/$name" >"$2/$name" || return 1; done
}
synced() { timeout 20 sync "$@" 2>/dev/null || timeout 20 sync; }
is_there() { [ -d "$kept/$1" ] && sound; }
is_kept() { [ -e "$1/is-applied" ] && [ ! -e "$1/is-reverted" ]; }
unit_text() {
  path=$PATH
  case $path in *[!A-Za-z0-9._/:+-]*) path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ;; esac
  echo "[Unit]
Description=Undo of the change $id of a fabric, which was in force when this machine went down
After=network.target openibd.service opensm.service
StartLimitIntervalSec=0
ConditionPathExists=$kept/$id/guard

[Service]
Environment=PATH=$path
ExecStart=/bin/sh $kept/$id/guard $dir boot $id
Restart=on-failure
RestartSec=3

[Install]
WantedBy=multi-user.target"
}
unit() {
  [ -d "$systemd" ] && [ -d "$units" ] || return 1
  (umask 022; mkdir -p "$units/multi-user.target.wants" && put "$(unit_of "$id")" "$(unit_text)") &&
    ln -s -f "$(unit_of "$id")" "$(wanted_of "$id")" && synced "$(unit_of "$id")" "$units/multi-user.target.wants"
}
keep_on_disk() {
  mkdir -p "$kept" && sound || return 1
  mkdir "$kept/.new.$id.$$" && copied "$f" "$kept/.new.$id.$$" && mv "$kept/.new.$id.$$" "$kept/$id" &&
    synced "$kept/$id"/* "$kept/$id" "$kept" && printf '' >"$f/kept"
}
kept_how() {
  [ -n "$1" ] || { echo none; return; }
  if ! keep_on_disk; then rm -rf "$kept/.new.$id.$$"; unkept "$id"; echo no; return; fi
  if unit; then echo unit; else rm -f "$(wanted_of "$id")" "$(unit_of "$id")"; echo folder; fi
} 2>/dev/null
kept_applied() {
  [ -e "$f/kept" ] && [ ! -e "$kept/$id/is-applied" ] || return 0
  printf '' >"$kept/$id/is-applied" && synced "$kept/$id"
} 2>/dev/null
unkept() {
  ! is_there "$1" || printf '' >"$kept/$1/is-reverted"
  [ ! -e "$(unit_of "$1")" ] || rm -f "$(wanted_of "$1")" "$(unit_of "$1")"
  ! is_there "$1" || { mv "$kept/$1" "$kept/.old.$1.$$" && rm -rf "$kept/.old.$1.$$"; }
} 2>/dev/null
forgotten() {
  [ -d "$kept/$id" ] || return 0
  printf '' >"$kept/$id/is-reverted"
  command eval 'unkept "$id"'
}
raised() {
  is_there "$1" && [ ! -d "$dir/$1" ] || return 1
  is_kept "$kept/$1" || { unkept "$1"; return 1; }
  n=$dir/.new.$1.$$
  mkdir "$n" && copied "$kept/$1" "$n" && furnished "$n" && printf '' >"$n/kept" && printf '' >"$n/is-applied" &&
    mv "$n" "$dir/$1" || { rm -rf "$n"; return 1; }
}
raised_alone() {
  is_there "$1" && mkdir -p "$dir" || return 1
  whole
  (command exec 8>>"$dir/.arm" && timeout 10 flock 8 && raised "$1")
} 2>/dev/null
all_raised() {
  ! sound || for k in "$kept"/.new.* "$kept"/.old.* "$kept"/*; do
    case ${k##*/} in .*) rm -rf "$k" ;; *) raised "${k##*/}" ;; esac
  done
} 2>/dev/null
listed_kept() {
  ! sound || for f in "$kept"/*; do
    is_kept "$f" && [ ! -d "$dir/${f##*/}" ] || continue
    boot=other; ! same_boot || boot=same
    echo "change ${f##*/} owner $(word_in "$f/owner") state applied left 0.00 guard dead boot $boot"
  done
}
boot() {
  opened "$1"
  [ -d "$f" ] || raised_alone "$id"
  if [ ! -d "$f" ] || [ "$(state)" = reverted ]; then
    [ -d "$f" ] || ! is_kept "$kept/$id" || answer 74 unwritable "$f"
    unkept "$id"; exit 0
  fi
  ! alive || exit 0  # started by hand, or by another target of systemd: nobody went down
  rm -f "$f/lease"; put "$f/boot" "$(boot_id)"
  chosen_shell
  exec $shell "$f/guard" "$dir" guard "$id" "$shell"
}
