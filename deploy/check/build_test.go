package check

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects are what a kustomization yields, by kind.
type objects struct {
	dir         string
	namespaces  []*corev1.Namespace
	deployments []*appsv1.Deployment
	services    []*corev1.Service
	configMaps  []*corev1.ConfigMap
	claims      []*corev1.PersistentVolumeClaim
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	budgets     []*policyv1.PodDisruptionBudget
	policies    []*networkingv1.NetworkPolicy
	monitors    []*monitoringv1.ServiceMonitor
}

// into returns a function that reads a document into a new element of list. A field that the type
// does not have, or has twice, is an error.
func into[T any](list *[]*T) func(document []byte) error {
	return func(document []byte) error {
		one := new(T)
		*list = append(*list, one)
		return yaml.UnmarshalStrict(document, one)
	}
}

// add takes in one document of the API version and kind given.
func (o *objects) add(kind string, document []byte) error {
	read, known := map[string]func([]byte) error{
		"v1 Namespace":                            into(&o.namespaces),
		"apps/v1 Deployment":                      into(&o.deployments),
		"v1 Service":                              into(&o.services),
		"v1 ConfigMap":                            into(&o.configMaps),
		"v1 PersistentVolumeClaim":                into(&o.claims),
		"autoscaling/v2 HorizontalPodAutoscaler":  into(&o.scalers),
		"policy/v1 PodDisruptionBudget":           into(&o.budgets),
		"networking.k8s.io/v1 NetworkPolicy":      into(&o.policies),
		"monitoring.coreos.com/v1 ServiceMonitor": into(&o.monitors),
	}[kind]
	if !known {
		return fmt.Errorf("nobody checks a %s", kind)
	}
	return read(document)
}

// build runs kustomize and decodes what it yields.
func build(dir string) (*objects, error) {
	k := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	built, err := k.Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	o := &objects{dir: strings.TrimPrefix(dir, root)}
	for _, r := range built.Resources() {
		document, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		if err := o.add(r.GetApiVersion()+" "+r.GetKind(), document); err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err)
		}
	}
	return o, nil
}

// root is where the kustomizations are.
const root = "../kubernetes/"

// each builds every kustomization and checks it.
func each(t *testing.T, check func(t *testing.T, o *objects)) {
	t.Helper()
	files, err := filepath.Glob(root + "*/*/kustomization.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("kustomizations: %v, %v", files, err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(strings.TrimPrefix(dir, root), func(t *testing.T) {
			o, err := build(dir)
			if err != nil {
				t.Fatal(err)
			}
			check(t, o)
		})
	}
}

// The schema check itself, and that it is strict.
func TestSchema(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		if len(o.deployments) == 0 {
			t.Error("it deploys nothing")
		}
	})
	f := func(kind, document string) {
		t.Helper()
		if err := new(objects).add(kind, []byte(document)); err == nil {
			t.Errorf("%s: %s is accepted", kind, document)
		}
	}
	f("apps/v1 Deployment", "spec: {replica: 1}")
	f("apps/v1 Deployment", "spec: {replicas: two}")
	f("v1 Service", "spec: {}\nspec: {}")
	f("networking.k8s.io/v1 NetworkPolicy", "spec: {podSelectors: {}}")
	f("monitoring.coreos.com/v1 ServiceMonitor", "spec: {endpoint: []}")
	f("v1 Secret", "data: {}")
}
