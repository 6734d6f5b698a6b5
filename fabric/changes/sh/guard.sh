# The constant sh text of a guard: a detached process on the target that undoes one change when its lease runs out.
#
# A call is `sh -c GUARD fabric-guard DIRECTORY VERB ARGS...`; no value is ever spliced into the text. The host needs
# only POSIX sh, /proc and flock, setsid, timeout, grep, sed, sleep, cat, mkfifo, find, ls, id, ip, readlink (util-linux
# or busybox).
#
# Whoever can write below the directory could have anything run as the guard's user. So no verb does anything unless
# only root and that user can write to the directory, to everything in it and to all directories above it.
#
# One folder holds one change. A folder is made under a hidden name and renamed, so it is there whole or not at all. The
# state is the name of an empty file and changes by rename, which needs no space on a full disk. A lease that is missing
# or not a number has run out. A guard ends when its change is reverted, or when `pid` holds the number of another one,
# and never because something cannot be read. When its folder is gone, or on SIGTERM, it undoes at once. Locks: `lock`
# is held by whoever acts on the change, `alive` by the guard for its life, `applying` by the steps of an apply
# themselves, so that a step that outlives its caller is seen.

# Times are hundredths of a second of /proc/uptime. The limit of 40 s is there because a tool is killed after 35 s.
umask 077; LC_ALL=C; export LC_ALL; cd /
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export PATH
newline='
'
answer() { code=$1; shift; printf '%s\n' "$*"; exit "$code"; }
now() { read -r up rest </proc/uptime; echo "${up%.*}${up#*.}"; }
hundredths() {
  case $1 in ''|.*|*[!0-9.]*|*.*.*|?????????*) answer 64 usage "$1 is not a number of seconds" ;; esac
  whole=${1%%.*}; part=${1#"$whole"}; part=${part#.}00; whole=$whole${part%"${part#??}"}
  while [ "${whole#0?}" != "$whole" ]; do whole=${whole#0}; done
  echo "$whole"
}
seconds() { [ "$1" -gt 0 ] || set -- 0; printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); }
number_in() { n=; [ ! -r "$1" ] || read -r n <"$1"; case $n in ''|*[!0-9]*) n=0 ;; esac; echo "$n"; }
word_in() { w=; [ ! -r "$1" ] || read -r w <"$1"; echo "${w:-?}"; }
boot_id() { cat /proc/sys/kernel/random/boot_id; }
left() { echo $(($(number_in "$f/lease") - $(now))); }
state() {
  for s in reverted stuck applied armed; do [ ! -e "$f/is-$s" ] || { echo $s; return; }; done
  echo torn
}
becomes() { s=$(state); [ "$s" = "$1" ] || mv -f "$f/is-$s" "$f/is-$1"; }
marked() { becomes "$1" || printf '' >"$f/is-$1"; }
same_boot() { [ "$(word_in "$f/boot")" = "$(boot_id)" ]; }
held() {
  [ -e "$1" ] || return 1
  flock -s -n "$1" true; case $? in 0) return 1 ;; 1) return 0 ;; *) return 2 ;; esac
}
alive() { same_boot && held "$f/alive"; }
lapsed() {
  case $(state) in armed|applied) ;; *) return 0 ;; esac
  ! same_boot || [ "$(left)" -le 0 ] || { held "$f/alive"; [ $? -eq 1 ]; }
}
gone() { lapsed || ! alive; }  # nothing is applied where it cannot be seen that the guard lives
still_applying() {
  held "$applying"; [ $? -ne 1 ] && [ $(($(now) - $(number_in "$applying"))) -lt 4000 ]
}
beside() { beside=; ! still_applying || beside=yes; }
put() { printf '%s\n' "$2" >"$1" && [ "$(cat "$1"; echo .)" = "$2$newline." ]; }
leased_until() { put "$f/lease.new" "$1" && mv -f "$f/lease.new" "$f/lease"; }
least() { [ "$1" -le "$2" ] && echo "$1" || echo "$2"; }
locked() {
  [ -r "$f/lock" ] || { [ -d "$f" ] && (: >>"$f/lock"); }
  command exec 9<"$f/lock" && (exec timeout "$1" flock 9) 8>&- && [ "$f/lock" -ef "/proc/$$/fd/9" ]
}
opened() {
  id=$1; f=$dir/$id; applying=$f/applying
  case $id in ''|.*|*[!A-Za-z0-9._-]*) answer 64 usage "bad id $id" ;; esac
  [ ${#id} -le 128 ] || answer 64 usage "id too long"
}
entered() {
  opened "$1"
  [ -d "$f" ] || raised_alone "$id"
  [ -d "$f" ] || answer 72 unknown "$id"
  locked 10 || { [ -d "$f" ] || answer 72 unknown "$id"; return 1; }
}
entered_or_busy() { entered "$1" || answer 73 busy "$id" owner "$(word_in "$f/owner")"; }

tool() { timeout -k 5 30 "$@" </dev/null 3>&- 4>&- 5>&- 6>&- 8>&- 9>&-; }
each() {
  each=$1 verdict=0; set -f; IFS=$newline
  for line in $2; do
    unset IFS
    "$each" "$line" || { verdict=$?; [ "$each" != apply_step ] || break; }
  done
  unset IFS; set +f
  return $verdict
}
there() { command -v "$1" >/dev/null || answer 78 missing "$1"; }
undo_known() { eval "set -- $1"; there "$1"; }
check_known() { eval "set -- $1"; while [ "$1" != -- ]; do shift; done; there "$2"; }
shown() {
  eval "set -- $line"
  [ "$1 $2" = "sh -c" ] && [ $# -gt 3 ] && shift 3 || set -- "$line"; printf '%s' "$*"
}
undo_step() {
  eval "set -- $1"
  said=$( { tool "$@" 2>&1 7>&-; printf '\n%s' "$?"; } | timeout 40 cat)
  status=${said##*"$newline"}
  [ "$status" != 0 ] || return 0
  printf 'undo ended with %s: %s\n%.4000s\n' "$status" "$(shown)" "${said%"$newline"*}" >&2
  return 1
}
check_tool() { while [ "$1" != -- ]; do shift; done; shift; tool "$@"; }
check_step() {
  eval "set -- $1"
  said=$(check_tool "$@" 7>&-; printf '\n%s' "$?")
  status=${said##*"$newline"} said=${said%"$newline"*}
  if [ "$status" != 0 ]; then
    printf 'check ended with %s: %s\n%.4000s\n' "$status" "$line" "$said" >&2; return 1
  fi
  for pattern; do
    [ "$pattern" != -- ] || return 0
    printf '%s\n' "$said" | grep -E -e "$pattern" >/dev/null && continue
    printf 'check does not find %s: %s\n%.4000s\n' "$pattern" "$line" "$said" >&2; return 1
  done
}
undone() {
  undone=0
  each undo_step "$undo" || undone=1
  each check_step "$checks" || undone=1
  return $undone
}
recall() {
  undo='' checks=''
  [ -r "$f/undo" ] && [ -r "$f/checks" ] || { echo "undo or checks are missing in $f" >&2; return 1; }
  undo=$(cat "$f/undo") && checks=$(cat "$f/checks")
}
apply_step() {
  ! gone || answer 75 gone "$id"
  now >"$f/applying" || answer 74 unwritable "$f/applying"
  eval "set -- $1"
  tool "$@" && return 0
  failed=$?; echo; answer 71 failed "$failed" "$(shown)"
}

# The guard goes on without the lock after 2 s (a caller that hangs must not keep the change alive). But it says
# "reverted" only after an undo under the lock during which no step of an apply ran: one that ended meanwhile may have
# acted after the undo was checked.
#
# While it waits it forks nothing: it reads, with a time limit, from a pipe in which nothing ever comes (fd 3), and so
# runs in a shell whose read has one. What cannot be read now counts as unchanged. An error that ends a script (no
# process or file descriptor is left) ends only one look, because `command eval` catches it. bash exits all the same
# when its forks fail for 15 s; it then starts anew in its own place, with its locks and all that it knows, because an
# exec needs no fork. fd 6 is `applying` and fd 8 `alive`, also when the folder is gone. dash, which could lose them,
# closes them in a child.
log_lines() {
  while IFS= read -r line || [ -n "$line" ]; do
    [ "$(cat "$f/log" | wc -c)" -gt 262144 ] || printf '%s %s\n' "$(seconds "$(now)")" "$line" >>"$f/log"
  done 2>/dev/null
}
say() {
  said=$((said + 1))
  [ $said -gt 1000 ] || printf '%d.%02d %s\n' $((clock / 100)) $((clock % 100)) "$1" >>"$f/log"
}
attempt() {
  beside
  status=$( { { undone 9>&-; echo $? >&5; } 2>&1 >/dev/null | log_lines 5>&- 9>&-; } 5>&1)
  [ "$status" = 0 ] && { [ "$1" = locked ] || [ ! -d "$f" ]; } && [ -z "$beside" ] && ! still_applying
}
look() {
  ulimit -S -n 1024 || ulimit -n 1024
  up=; read -r up rest </proc/uptime
  case $up in *.*) clock=${up%.*}${up#*.} ;; *) clock=$((clock + 25)) ;; esac
  [ -z "$told" ] || printf '' >"$f/lease"
  n=unread; read -r n <"$f/lease"
  case $n in
    unread) [ -e "$f/lease" ] || ends=0 ;;
    ''|*[!0-9]*) ends=0 ;;
    *) ends=$n ;;
  esac
  [ -z "$told" ] && [ "$f/alive" -ef "/proc/$$/fd/8" ] || ends=0
}
over() {
  [ ! -e "$f/is-reverted" ] || return 0
  n=; read -r n <"$f/pid" || return 1
  case $n in ''|0*|*[!0-9]*) return 1 ;; esac
  [ "$n" != $$ ]
}
leave() { trap - EXIT; exit 0; }
keep() {
  look; ! over || leave
  [ "$ends" -le "$clock" ] && [ "$clock" -ge "$again" ] || return 0
  again=$((clock + 100)) status='' got=''
  ! locked 2 || got=locked
  look; ! over || leave
  if [ "$ends" -gt "$clock" ]; then command exec 9>&-; return 0; fi
  [ -n "$clean" ] || { say "the lease has run out: undo"; ! attempt "$got" || clean=yes; }
  if [ -n "$clean" ]; then
    forgotten
    if [ ! -d "$f" ] || marked reverted; then look; say "undone"; leave; fi
  else
    marked stuck
  fi
  command exec 9>&-
  look; say "not undone yet; again in $delay s"
  again=$((clock + delay * 100))
  [ -z "$status" ] || delay=$((delay < 15 ? 2 * delay : 30))
}
pause() {
  if [ -p "/proc/$$/fd/3" ]; then read -t 0.25 -u 3 n; [ $? -eq 2 ] || return 0; fi
  command eval '(exec sleep 0.25) 3>&- 6>&- 8>&-' && return
  n=$((clock + 25)); while [ "$clock" -lt "$n" ]; do look; done
}
begin_anew() {
  :  # after a fork that failed bash does not carry out the first compound command of a trap
  while :; do
    look
    command exec 4</proc/uptime 5</proc/uptime 7</proc/uptime 9</proc/uptime && exec 4<&- 5<&- 7<&- 9<&- &&
      exec $shell -c 'text=$1; shift; eval "$text"' fabric-guard "$text" "$dir" guard "$id" "$shell" "$undo" "$checks" \
        "$told"
    pause
  done
}
guard() {
  opened "$1"; shell=$2 ends=0 clock=0 again=0 delay=1 said=0 clean='' told=''
  n=1; while [ $n -le 64 ]; do
    case $n in 9|15|17|18|19|32|33) ;; *) trap : $n ;; esac; n=$((n + 1))
  done
  trap told=yes TERM
  if [ $# -gt 2 ]; then
    undo=$3 checks=$4 told=$5
  else
    recall && text=$(cat "$f/guard") && put "$f/pid" $$ || exit 74
    command exec 8<"$f/alive" 3<>"$f/wait" || exit 74
    n=0; until flock -n 8; do n=$((n + 1)); [ $n -lt 20 ] || exit 74; pause; done
    command exec 6<"$f/applying"
    printf '%s\n' -1000 >/proc/$$/oom_score_adj
  fi
  [ ! -e "/proc/$$/fd/6" ] || applying=/proc/$$/fd/6
  trap begin_anew EXIT
  while :; do command eval keep; pause; done
} 2>/dev/null

# If arm is killed before its guard runs, the next arm sweeps what it left: nothing was ever applied under it. From the
# rename on, arm ignores all signals but SIGKILL, because a caller that loses its session is sent SIGTERM first.
sweep() {
  for f in "$dir"/.new.* "$dir"/.old.*; do [ ! -d "$f" ] || rm -rf "$f"; done
  all_raised
  for f in "$dir"/*; do
    [ -d "$f" ] || continue
    if [ "$(state)" = reverted ] || abandoned; then removed; exec 9>&-; continue; fi
    owner=$(word_in "$f/owner")
    exec 9>&-
    [ "$owner" = "$2" ] && [ "${f##*/}" != "$1" ] || answer 73 busy "${f##*/}" owner "$owner"
  done
}
abandoned() { never_applied && locked 1 && never_applied; }
never_applied() {
  [ "$(state)" = armed ] && ! alive && ! still_applying && { ! same_boot || [ "$(left)" -le 0 ]; }
}
removed() { unkept "${f##*/}"; old=$dir/.old.${f##*/}.$$; mv "$f" "$old" 2>/dev/null; rm -rf "$old"; [ ! -e "$f" ]; }
written() {
  f=$dir/.new.$id.$$
  mkdir "$f" && put "$f/owner" "$1" && put "$f/boot" "$(boot_id)" && put "$f/peer" "$2" && put "$f/devices" "$3" &&
    put "$f/undo" "$4" && put "$f/checks" "$5" && put "$f/lease" "$6" && put "$f/term" "$7" && put "$f/guard" "$text" &&
    furnished "$f" && : >"$f/is-armed"
}
furnished() { put "$1/applying" 0 && : >"$1/lock" && : >"$1/alive" && : >"$1/log" && mkfifo "$1/wait"; }
can_wait() { [ "$(echo y | $1 -c 'read -t 0.25 -u 0 n; echo "$n"' 2>/dev/null)" = y ]; }
chosen_shell() { for shell in sh bash "busybox sh" sh; do ! can_wait "$shell" || break; done; }
as_unit() {
  systemd-run --quiet "$@" --unit="fabric-guard-$id" --setenv="PATH=$PATH" \
    -p Restart=on-failure -p RestartSec=3 -- sh -c '[ ! -e "$1" ] || exec $0 "$@"' "$shell" \
    "$f/guard" "$dir" guard "$id" "$shell" </dev/null >/dev/null 2>&1
}
begin_guard() {
  chosen_shell
  if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
    as_unit --collect || as_unit && return  # before systemd 236 there is no --collect
  fi
  ( trap - HUP INT TERM  # a shell cannot trap what it was told to ignore
    exec setsid $shell "$f/guard" "$dir" guard "$id" "$shell" </dev/null >/dev/null 2>&1 \
      3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- ) &
}
arm() {
  opened "$1"
  case $2 in ''|*[!A-Za-z0-9._:@/-]*) answer 64 usage "bad owner" ;; esac
  ttl=$(hundredths "$3") && hold=$(hundredths "$4") || answer 64 "$ttl" "$hold"
  each undo_known "$7"; each check_known "$8"
  [ -d "$dir" ] || { mkdir -p "$dir" 2>/dev/null; whole; }
  [ -d "$dir" ] && command exec 8>>"$dir/.arm" || answer 74 unwritable "$dir"
  timeout 10 flock 8 || answer 73 busy .arm owner '?'
  sweep "$1" "$2"
  allowed "$5" "$6"
  trap '' HUP INT TERM
  at=$(now)
  if ! why=$(written "$2" "$5" "$6" "$7" "$8" $((at + $(least $ttl $hold))) $((at + hold)) 2>&1) ||
    ! mv "$dir/.new.$id.$$" "$dir/$id"; then
    rm -rf "$dir/.new.$id.$$"; printf '%s\n' "$why" >&2; answer 74 unwritable "$dir"
  fi
  f=$dir/$id; how=$(kept_how "$9")
  begin_guard
  n=0; until alive && [ "$(number_in "$f/pid")" != 0 ]; do
    n=$((n + 1)); [ $n -lt 100 ] || { removed; answer 74 unwritable "the guard did not start"; }
    sleep 0.05
  done
  answer 0 armed "$id" ttl "$3" boot "$(boot_id)" kept "$how"
}
apply() {
  entered_or_busy "$1"
  ! gone || answer 75 gone "$id"
  allowed "$(cat "$f/peer")" "$(cat "$f/devices")"
  command exec 7<"$f/applying" || answer 74 unwritable "$f/applying"
  flock -n 7 || answer 73 busy "$id" owner "$(word_in "$f/owner")"
  kept_applied || answer 74 unwritable "$kept/$id"
  becomes applied || answer 74 unwritable "$f"
  each apply_step "$2"
  echo; ! gone || answer 75 gone "$id"
  answer 0 applied "$id"
}
renew() {
  entered_or_busy "$1"; ttl=$(hundredths "$2") || answer 64 "$ttl"
  ! lapsed || answer 75 gone "$id"
  at=$(now)
  leased_until "$(least $((at + ttl)) "$(number_in "$f/term")")" 2>/dev/null || answer 74 unwritable "$f/lease"
  answer 0 renewed "$id" left "$(seconds "$(left)")"
}
lift() {
  entered_or_busy "$1"
  ! gone || answer 75 gone "$id"
  beside
  recall && undone && settled || answer 76 not-undone "$id"
  [ -z "$beside" ] || undone || answer 76 not-undone "$id"
  becomes armed || answer 74 unwritable "$f"
  answer 0 lifted "$id"
}
settled() {  # the timeout of busybox leaves a process behind for a second
  n=0; while still_applying; do
    n=$((n + 1)); [ $n -lt 30 ] || return 1
    sleep 0.05
  done
}
not_undone() {
  rm -f "$f/lease"; [ "$(state)" != reverted ] || becomes stuck
  echo "$1" >&2; answer 76 not-undone "$id"
}
revert() {
  entered "$1" || not_undone "another call holds this change"
  how=; [ "$(state)" != reverted ] || how=by-guard
  beside
  recall && undone || not_undone "not undone: $f"
  settled || not_undone "a step of an apply still runs"
  [ -z "$beside" ] || undone || not_undone "not undone: $f"
  marked reverted 2>/dev/null
  guard=$(number_in "$f/pid"); n=0; rm -f "$f/pid"
  while alive; do
    n=$((n + 1)); [ $n -ne 60 ] || [ "$guard" = 0 ] || kill -s KILL "$guard"
    [ $n -lt 80 ] || break
    sleep 0.05
  done
  removed || answer 74 unwritable "$f"
  answer 0 reverted "$id" $how
}
list() {
  for f in "$dir"/*; do
    [ -d "$f" ] || continue
    alive=dead; ! alive || alive=alive
    boot=other; ! same_boot || boot=same
    left=0; [ $boot = other ] || left=$(left)
    case $(state) in armed|applied) ;; *) left=0 ;; esac
    echo "change ${f##*/} owner $(word_in "$f/owner") state $(state) left $(seconds "$left") guard $alive boot $boot"
  done
  listed_kept
}
foreign() { answer 74 unwritable "$1: only root and this user may write there, as in /run/fabric-guard"; }
whole() {
  tree=${1:-$dir}
  me=$(id -u) && place=/ places=/ left=${tree#/} || foreign "$tree cannot be looked at"
  while [ -n "$left" ]; do
    place=${place%/}/${left%%/*}
    case $left in */*) left=${left#*/} ;; *) left= ;; esac
    if [ -e "$place" ] || [ -L "$place" ]; then places=$places$newline$place; else left=; fi
  done
  set -f; IFS=$newline
  said=$(ls -ldn $places) || foreign "$tree cannot be looked at"
  for line in $said; do
    unset IFS; set -- $line; shift 8; place=$*; set -- $line
    case $1 in
      l*) foreign "${place%% *} is a link" ;;
      d????w*|d???????w*) foreign "others can write $place" ;;
      d*) ;;
      *) foreign "$place is not a directory of this user" ;;
    esac
    case $3 in 0|"$me") ;; *) foreign "$place is not a directory of this user, but of uid $3" ;; esac
  done
  unset IFS; set +f
  [ ! -e "$tree" ] || alone || alone || alone ||
    foreign "others own or can write something in $tree, or it holds a link (${others%%"$newline"*})"
}
alone() {  # not at once, if a file went away meanwhile
  others=$(find "$tree" ! -user 0 ! -user "$me" -o -type l -o -perm -020 -o -perm -002) && [ -z "$others" ]
} 2>/dev/null
dir=$1 verb=$2; shift 2
sound=
case $dir in /run/*) kept=/var/lib/${dir#/run/} ;; *) kept=$dir.kept ;; esac
[ "$verb" = guard ] || {
  for need in flock setsid timeout grep sed sleep cat ip readlink mv rm mkdir mkfifo wc find id ls; do
    command -v $need >/dev/null || answer 78 missing $need
  done
  whole
}
case $verb in  # what is kept on disk is not passed over in silence
  arm|list) { [ ! -e "$kept" ] && [ ! -L "$kept" ]; } || whole "$kept" ;;
esac
case $verb in
  arm|apply|renew|lift|revert|list|guard|boot) "$verb" "$@" ;;
  *) answer 64 usage "no verb $verb" ;;
esac
