package check

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// selected are the deployments whose pods a selector selects.
func (o *objects) selected(selector *metav1.LabelSelector) (list []*appsv1.Deployment) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	for _, d := range o.deployments {
		if s.Matches(labels.Set(d.Spec.Template.Labels)) {
			list = append(list, d)
		}
	}
	return list
}

// only returns the one deployment that a selector selects.
func (o *objects) only(t *testing.T, who string, selector *metav1.LabelSelector) *appsv1.Deployment {
	t.Helper()
	list := o.selected(selector)
	if len(list) != 1 || len(selector.MatchLabels) == 0 {
		t.Fatalf("%s: %v selects %d deployments, want one", who, selector, len(list))
	}
	return list[0]
}

// hasPort says whether a container of d has the port, by number or name.
func hasPort(d *appsv1.Deployment, port intstr.IntOrString) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

func TestSelectors(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			if o.only(t, d.Name, d.Spec.Selector) != d {
				t.Errorf("%s selects the pods of another deployment", d.Name)
			}
		}
		for _, s := range o.services {
			d := o.only(t, s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
			for _, p := range s.Spec.Ports {
				if !hasPort(d, p.TargetPort) {
					t.Errorf("service %s: its pods have no port %s", s.Name, p.TargetPort.String())
				}
			}
		}
		for _, b := range o.budgets {
			o.only(t, "budget "+b.Name, b.Spec.Selector)
			if (b.Spec.MaxUnavailable == nil) == (b.Spec.MinAvailable == nil) {
				t.Errorf("budget %s: needs maxUnavailable or minAvailable", b.Name)
			}
		}
		for _, m := range o.monitors {
			if !slices.ContainsFunc(o.services, func(s *corev1.Service) bool {
				return labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) &&
					s.Labels[m.Spec.JobLabel] != "" &&
					len(m.Spec.Endpoints) == 1 && m.Spec.Endpoints[0].Path == "/metrics" &&
					slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port })
			}) {
				t.Errorf("monitor %s: no service has its labels and its port", m.Name)
			}
		}
	})
}

func TestScalers(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, h := range o.scalers {
			i := slices.IndexFunc(o.deployments, func(d *appsv1.Deployment) bool { return d.Name == h.Spec.ScaleTargetRef.Name })
			if i < 0 || h.Spec.ScaleTargetRef.Kind != "Deployment" || h.Spec.ScaleTargetRef.APIVersion != "apps/v1" {
				t.Fatalf("scaler %s: there is no %+v", h.Name, h.Spec.ScaleTargetRef)
			}
			d := o.deployments[i]
			if d.Spec.Replicas != nil {
				t.Errorf("%s has replicas, which its scaler would be set back to", d.Name)
			}
			if h.Spec.MinReplicas == nil || *h.Spec.MinReplicas < 2 || h.Spec.MaxReplicas <= *h.Spec.MinReplicas {
				t.Errorf("scaler %s: at least two replicas, and room for more, are wanted", h.Name)
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				if c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s, %s: without a request for cpu there is no utilisation of it", d.Name, c.Name)
				}
			}
		}
	})
}

// Policies bind pods that there are, at ports that they have; and whoever a
// proxy is told to call can be called, in both directions.
func TestPolicies(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		bound := make(map[string]*networkingv1.NetworkPolicy)
		for _, p := range o.policies {
			d := o.only(t, "policy "+p.Name, &p.Spec.PodSelector)
			bound[d.Name] = p
			for _, direction := range p.Spec.PolicyTypes {
				if direction != networkingv1.PolicyTypeIngress && direction != networkingv1.PolicyTypeEgress {
					t.Errorf("policy %s: there is no direction %s", p.Name, direction)
				}
			}
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					if !hasPort(d, *port.Port) {
						t.Errorf("policy %s: %s has no port %s", p.Name, d.Name, port.Port.String())
					}
				}
			}
		}
		for _, d := range o.deployments {
			if bound[d.Name] == nil {
				t.Errorf("no policy binds %s", d.Name)
			}
			for _, setting := range []string{"TARGET_URL", "REDIS_HOST", "POSTGRES_URL", "REMOTE_URL", "ADVISOR_URL"} {
				o.checkCall(t, d, bound, setting)
			}
		}
	})
}

// checkCall checks that d may call the service that a setting of it names.
func (o *objects) checkCall(t *testing.T, d *appsv1.Deployment, bound map[string]*networkingv1.NetworkPolicy,
	setting string) {
	t.Helper()
	host := o.environment(t, d, "proxy")[setting]
	name, _, _ := strings.Cut(host, ":")
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		name = u.Hostname()
	}
	i := slices.IndexFunc(o.services, func(s *corev1.Service) bool { return s.Name == name })
	if host == "" || host == "none" || name == "127.0.0.1" || i < 0 && strings.HasPrefix(o.dir, "base/") {
		return // itself, or left to the overlays
	}
	if i < 0 {
		t.Errorf("%s: %s names %s, and there is no such service", d.Name, setting, name)
		return
	}
	callee := o.only(t, name, &metav1.LabelSelector{MatchLabels: o.services[i].Spec.Selector})
	out := slices.ContainsFunc(bound[d.Name].Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
		return o.lets(r.To, r.Ports, callee, callee)
	})
	in := slices.ContainsFunc(bound[callee.Name].Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
		return o.lets(r.From, r.Ports, d, callee)
	})
	if !out || !in {
		t.Errorf("%s calls %s (%s): policies let it out: %t, and in: %t", d.Name, callee.Name, setting, out, in)
	}
}

// lets says whether peers name the pods of other, at a port of callee.
func (o *objects) lets(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, other,
	callee *appsv1.Deployment) bool {
	named := len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		return p.PodSelector != nil && p.NamespaceSelector == nil && slices.Contains(o.selected(p.PodSelector), other)
	})
	return named &&
		slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return hasPort(callee, *p.Port) })
}

// What every pod promises: the least privileges, bounds, and time to drain.
func TestPods(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			pod := d.Spec.Template.Spec
			if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot ||
				s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: the pod may run as root or without seccomp", d.Name)
			}
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s is given a token of the API", d.Name)
			}
			for _, c := range pod.Containers {
				if err := hardened(&c); err != nil {
					t.Errorf("%s, %s: %v", d.Name, c.Name, err)
				}
				const drain = 30 // DRAIN_TIMEOUT
				pause := int64(0)
				if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
					pause = c.Lifecycle.PreStop.Sleep.Seconds
				}
				grace := int64(30) // what Kubernetes gives
				if s := pod.TerminationGracePeriodSeconds; s != nil {
					grace = *s
				}
				if c.Name == "proxy" && (grace < pause+drain || pause == 0) {
					t.Errorf("%s: a proxy is given %d s, and needs a pause (%d s) and %d s to drain", d.Name, grace, pause, drain)
				}
			}
		}
		for _, c := range o.claims {
			if c.Spec.Resources.Requests.Storage().IsZero() || len(c.Spec.AccessModes) == 0 {
				t.Errorf("claim %s asks for nothing", c.Name)
			}
		}
		if strings.HasPrefix(o.dir, "overlays/") &&
			(len(o.namespaces) != 1 || o.namespaces[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted") {
			t.Error("the namespace is not restricted")
		}
	})
}

// hardened says what a container may do that it need not.
func hardened(c *corev1.Container) error {
	s := c.SecurityContext
	switch {
	case s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
		return fmt.Errorf("its file system can be written")
	case s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
		return fmt.Errorf("it may gain privileges")
	case s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}):
		return fmt.Errorf("it keeps capabilities")
	case c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero():
		return fmt.Errorf("its memory has no bounds")
	case !strings.Contains(c.Image, ":"):
		return fmt.Errorf("its image %s has no tag", c.Image)
	case c.LivenessProbe == nil || c.ReadinessProbe == nil:
		return fmt.Errorf("nobody asks for its health")
	}
	return nil
}

// What is mounted and referred to is there.
func TestReferences(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		for _, d := range o.deployments {
			volumes := make(map[string]bool)
			for _, v := range d.Spec.Template.Spec.Volumes {
				volumes[v.Name] = true
				switch {
				case v.ConfigMap != nil && o.configMap(v.ConfigMap.Name) == nil:
					t.Errorf("%s: there is no ConfigMap %s", d.Name, v.ConfigMap.Name)
				case v.PersistentVolumeClaim != nil &&
					(len(o.claims) == 0 || o.claims[0].Name != v.PersistentVolumeClaim.ClaimName):
					t.Errorf("%s: there is no claim %s", d.Name, v.PersistentVolumeClaim.ClaimName)
				}
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				for _, m := range c.VolumeMounts {
					if !volumes[m.Name] {
						t.Errorf("%s, %s: there is no volume %s", d.Name, c.Name, m.Name)
					}
					delete(volumes, m.Name)
				}
			}
			if len(volumes) > 0 {
				t.Errorf("%s: nobody mounts %v", d.Name, slices.Collect(maps.Keys(volumes)))
			}
		}
	})
}

func (o *objects) configMap(name string) *corev1.ConfigMap {
	for _, c := range o.configMaps {
		if c.Name == name {
			return c
		}
	}
	return nil
}
