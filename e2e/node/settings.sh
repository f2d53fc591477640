# Writes the settings of containerd, the pod network, kubelet and kube-proxy.
mkdir -p "$state/cni"

# restrict_oom_score_adj: where root has no CAP_SYS_RESOURCE, a negative score is refused and no container would start.
# netns_mounts_under_state_dir: so that `down` finds what is ours.
cat >"$state/containerd.toml" <<Y
version = 2
root = "$state/containerd"
state = "$state/containerd-run"
[grpc]
  address = "$state/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
Y

cat >"$state/cni/10-bridge.conflist" <<Y
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$state/cni-ipam", "ranges": [[{"subnet": "10.244.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
Y

# failCgroupV1: run on machines with either version. Nothing is evicted or collected: the images come from no registry.
cat >"$state/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$state/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: $state/resolv.conf
evictionHard: {memory.available: 200Mi, nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
maxPods: 250
podLogsDir: $state/pod-logs
Y
echo "nameserver 172.30.0.1" >"$state/resolv.conf"

cat >"$state/proxy.yaml" <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $pki/proxy.kubeconfig}
clusterCIDR: 10.244.0.0/16
hostnameOverride: $name
mode: nftables
conntrack: {maxPerCore: 0, min: 0}
Y
