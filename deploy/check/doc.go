// Package check has nothing but tests: kustomizations are built, read strictly
// by the types of Kubernetes, and held to what they must mean together. The
// proxy is started with what its pods would be given.
package check
