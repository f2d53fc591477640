# Removes everything of the node: processes, containers, mounts, network, files. Does no harm when there is nothing.

containers() { "${ctr[@]}" "$1" ls -q 2>/dev/null | xargs -r -n1 "${ctr[@]}" "${@:1}" >/dev/null 2>&1 || true; }

for component in kubelet proxy loadbalancer scheduler controller-manager; do stop $component; done
# The API server would take a minute to end once etcd is gone.
stop kube-apiserver KILL
if [ -S "$state/containerd.sock" ]; then
  containers tasks kill -s KILL
  sleep 0.5
  containers tasks rm -f
  containers containers rm
fi
stop containerd
stop etcd KILL
sleep 0.5
grep -o " $state/[^ ]*" /proc/mounts | sort -r | xargs -r umount -l 2>/dev/null || true
ip netns del "$name" 2>/dev/null || true
rm -rf "$state"
