# Starts and stops the processes of the node. Each has its log, its command and its number in $state/log.

# start NAME [COMMAND..]: without a command, as it was started before. In a session of its own, so that it outlives an
# interrupted caller.
start() {
  local file=$state/log/$1
  [ $# = 1 ] || printf '%q ' "${@:2}" >"$file.command"
  local again
  eval "again=($(<"$file.command"))"
  cd "$state"
  (
    # What the caller has open, its locks among them, is not the component's.
    for open in "/proc/$BASHPID/fd"/*; do [ "${open##*/}" -le 2 ] || eval "exec ${open##*/}>&-"; done
    exec setsid nsenter --net="/run/netns/$name" -- "${again[@]}" >>"$file.log" 2>&1 </dev/null
  ) &
  echo $! >"$file.pid"
}

# stop NAME [SIGNAL]
stop() {
  local file=$state/log/$1.pid
  [ -f "$file" ] || return 0
  # A number that has been given to something else since is left alone.
  [[ $(readlink "/proc/$(cat "$file")/exe") != */@(kubenode|containerd)* ]] || kill "-${2:-TERM}" "$(cat "$file")" 2>/dev/null || true
  rm "$file"
}

# kill_pod NAMESPACE POD: KILL for what runs in its containers.
kill_pod() {
  local of='labels."io.kubernetes.pod' container killed=
  for container in $("${ctr[@]}" containers ls -q "$of.namespace\"==$1,$of.name\"==$2,labels.\"io.cri-containerd.kind\"==container"); do
    # One that has ended before has no task.
    ! "${ctr[@]}" tasks kill -s KILL "$container" 2>/dev/null || killed=yes
  done
  [ -n "$killed" ] || fail "nothing runs in pod $1/$2" "e2e/cluster kubectl get pods -n $1"
}
