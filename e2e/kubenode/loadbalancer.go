package main

import (
	"context"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// newLoadBalancerCommand gives every Service of type LoadBalancer an address out of one range: the one that it asks for where
// that is free, and else the first that is. kube-proxy does the rest.
func newLoadBalancerCommand() *cobra.Command {
	command := &cobra.Command{Use: "loadbalancer", SilenceUsage: true}
	kubeconfig := command.Flags().String("kubeconfig", "", "of a user who may update services/status")
	addresses := command.Flags().String("range", "", "the addresses to hand out, as a prefix")
	command.RunE = func(command *cobra.Command, _ []string) error {
		prefix, err := netip.ParsePrefix(*addresses)
		if err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return balance(command.Context(), client, prefix)
	}
	return command
}

func balance(ctx context.Context, client kubernetes.Interface, prefix netip.Prefix) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Services().Informer()
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // a round is due already
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for range changed {
		time.Sleep(20 * time.Millisecond) // changes come in groups
		for service, address := range assign(informer.GetStore().List(), prefix) {
			service = service.DeepCopy()
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address.String()}}
			if _, err := client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{}); err != nil {
				klog.Errorf("%s/%s: %v", service.Namespace, service.Name, err)
				poke()
			}
		}
	}
	return nil
}

// assign names an address for every Service that waits for one and can have one.
func assign(services []any, prefix netip.Prefix) map[*corev1.Service]netip.Addr {
	used := map[netip.Addr]bool{}
	var waiting []*corev1.Service
	for _, object := range services {
		service := object.(*corev1.Service)
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			waiting = append(waiting, service)
		}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if address, err := netip.ParseAddr(ingress.IP); err == nil {
				used[address] = true
			}
		}
	}
	given := map[*corev1.Service]netip.Addr{}
	for _, service := range waiting {
		if address, ok := choose(prefix, used, service.Spec.LoadBalancerIP); ok {
			used[address] = true
			given[service] = address
		}
	}
	return given
}

func choose(prefix netip.Prefix, used map[netip.Addr]bool, wanted string) (netip.Addr, bool) {
	if wanted != "" {
		address, err := netip.ParseAddr(wanted)
		return address, err == nil && prefix.Contains(address) && !used[address]
	}
	for address := prefix.Addr().Next(); prefix.Contains(address); address = address.Next() {
		if !used[address] {
			return address, true
		}
	}
	return netip.Addr{}, false
}
