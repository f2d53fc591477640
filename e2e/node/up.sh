# Starts the node: its network, etcd and the API server, then everything that talks to it.
cd "$state"
mkdir -p log kubelet
mkdir -p -m 700 etcd

ip netns add "$name"
in_node ip link set lo up
# A pair of virtual cards stands for the network card. Nothing is behind it, so no packet leaves the namespace.
in_node ip link add node0 type veth peer name node1
in_node ip link set node1 up
in_node ip addr add 172.30.0.2/24 dev node0
in_node ip link set node0 up
in_node ip route add default via 172.30.0.1 dev node0
# A load-balancer address that kube-proxy does not send elsewhere has nobody behind it.
addresses=172.30.1.0/24
in_node nft -f - <<N
table ip nobody {
  chain refuse { ip daddr $addresses reject with icmp host-unreachable; }
  chain output { type filter hook output priority filter; jump refuse; }
  chain forward { type filter hook forward priority filter; jump refuse; }
}
N
in_node sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1 net.ipv4.conf.all.rp_filter=0

# wait_for SECONDS WHAT COMMAND..
wait_for() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what is not ready" "look into $state/log, then 'e2e/cluster down'"
    sleep 0.2
  done
}

start etcd "$bin/kubenode" etcd --data-dir etcd --unsafe-no-fsync --log-level error \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
start kube-apiserver "$bin/kubenode" kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
  --advertise-address=172.30.0.2 --secure-port=6443 --service-cluster-ip-range=10.96.0.0/16 \
  --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true --profiling=false \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --service-account-key-file=pki/sa.pub --service-account-signing-key-file=pki/sa.key \
  --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key \
  --kubelet-certificate-authority=pki/ca.crt --kubelet-preferred-address-types=InternalIP
wait_for 60 "the API server" admin get --raw /readyz

start controller-manager "$bin/kubenode" kube-controller-manager --kubeconfig=pki/controller-manager.kubeconfig --leader-elect=false \
  --use-service-account-credentials=true --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt \
  --cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=true --cluster-signing-cert-file=pki/ca.crt --cluster-signing-key-file=pki/ca.key
start scheduler "$bin/kubenode" kube-scheduler --kubeconfig=pki/scheduler.kubeconfig --leader-elect=false
start loadbalancer "$bin/kubenode" loadbalancer --kubeconfig=pki/admin.kubeconfig --range=$addresses

start containerd containerd --config containerd.toml
wait_for 20 containerd "${ctr[@]}" version
for archive in "$images"/*.tar; do "${ctr[@]}" images import "$archive" >/dev/null; done

start kubelet "$bin/kubenode" kubelet --config=kubelet.yaml --kubeconfig=pki/kubelet.kubeconfig --root-dir="$state/kubelet" \
  --hostname-override="$name" --node-ip=172.30.0.2
start proxy "$bin/kubenode" kube-proxy --config=proxy.yaml
admin apply -f "$here/node/coredns.yaml" >/dev/null
wait_for 60 "the node" admin wait --for=condition=Ready "node/$name" --timeout=1s
wait_for 60 "the default ServiceAccount" admin get serviceaccount default
wait_for 60 "cluster DNS" admin rollout status -n kube-system deployment/coredns --timeout=1s
