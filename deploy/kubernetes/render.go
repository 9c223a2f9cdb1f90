// SPDX-License-Identifier: Apache-2.0

// Renders a Helm chart as `helm template` does, with what Debian has of Helm's parts: text/template, sprig and sigs.k8s.io/yaml.
// Only what deploy/kubernetes/chart uses: no subcharts, hooks, lookups or checks of the schema (values_test.py makes those).
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml]...
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

// Files is .Files of a template: the chart's files that are no templates, by path.
type Files map[string]string

func (f Files) Get(path string) string { return f[path] }

// Glob matches as path.Match does; a template ranges over paths and contents.
func (f Files) Glob(pattern string) (Files, error) {
	found := Files{}
	for path, content := range f {
		matches, err := filepath.Match(pattern, path)
		if err != nil {
			return nil, err
		}
		if matches {
			found[path] = content
		}
	}
	return found, nil
}

func readYAML(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := object{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// merge lays `over` on `under`: maps key by key, anything else whole; null takes a key away.
func merge(under, over object) {
	for key, value := range over {
		below, both := under[key].(object)
		above, isMap := value.(object)
		switch {
		case value == nil:
			delete(under, key)
		case both && isMap:
			merge(below, above)
		default:
			under[key] = value
		}
	}
}

// walk lists the files below folder. Links are followed, as Helm does: Walk itself stops at them.
func walk(folder string, visit func(path string) error) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			err = walk(path, visit)
		} else if err == nil {
			err = visit(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func functions(root *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all["tpl"] = func(text string, data interface{}) (string, error) {
		copied, err := root.Clone()
		if err != nil {
			return "", err
		}
		parsed, err := copied.New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = parsed.Execute(&out, data)
		return out.String(), err
	}
	all["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, errors.New(message)
		}
		return value, nil
	}
	all["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all["fromYaml"] = func(text string) (object, error) {
		value := object{}
		return value, yaml.Unmarshal([]byte(text), &value)
	}
	return all
}

// The order in which Helm installs kinds; others follow by name.
var kinds = strings.Fields(`NetworkPolicy PodDisruptionBudget ServiceAccount Secret ConfigMap PersistentVolumeClaim
	Role RoleBinding Service DaemonSet Pod StatefulSet Job`)

func rank(kind string) int {
	for i, known := range kinds {
		if kind == known {
			return i
		}
	}
	return len(kinds)
}

type document struct{ source, text, kind string }

var separator = regexp.MustCompile(`(?m)^---\s*$`)

func split(source, text string) ([]document, error) {
	var found []document
	for _, part := range separator.Split(text, -1) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			return nil, fmt.Errorf("%s: %w in\n%s", source, err, part)
		}
		if head.Kind != "" {
			found = append(found, document{source, strings.Trim(part, "\n"), head.Kind})
		}
	}
	return found, nil
}

func render(chart, release, namespace string, overrides []string) error {
	meta, err := readYAML(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	values, err := readYAML(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	for _, path := range overrides {
		over, err := readYAML(path)
		if err != nil {
			return err
		}
		merge(values, over)
	}

	// Helm makes .Chart's fields from the file's keys: appVersion is .Chart.AppVersion.
	chartFields := object{}
	for key, value := range meta {
		chartFields[strings.ToUpper(key[:1])+key[1:]] = value
	}
	name := meta["name"].(string)
	files := Files{}
	root := template.New(name).Option("missingkey=zero")
	root.Funcs(functions(root))
	var pages []string
	err = walk(chart, func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(chart, path)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(relative, "templates/") {
			files[relative] = string(text)
			return nil
		}
		if page := name + "/" + relative; !strings.HasPrefix(filepath.Base(path), "_") {
			pages = append(pages, page)
		}
		_, err = root.New(name + "/" + relative).Parse(string(text))
		return err
	})
	if err != nil {
		return err
	}

	var documents []document
	for _, page := range pages {
		data := object{
			"Values": values, "Chart": chartFields, "Files": files,
			"Release":      object{"Name": release, "Namespace": namespace, "Service": "Helm", "IsInstall": true, "Revision": 1},
			"Capabilities": object{"KubeVersion": object{"Version": "v1.28.0", "Major": "1", "Minor": "28"}},
			"Template":     object{"Name": page, "BasePath": name + "/templates"},
		}
		var out bytes.Buffer
		if err := root.ExecuteTemplate(&out, page, data); err != nil {
			return err
		}
		if strings.HasSuffix(page, "NOTES.txt") {
			continue
		}
		// Helm has no <no value> either: what is missing is empty.
		found, err := split(page, strings.ReplaceAll(out.String(), "<no value>", ""))
		if err != nil {
			return err
		}
		documents = append(documents, found...)
	}
	sort.SliceStable(documents, func(i, j int) bool {
		a, b := documents[i], documents[j]
		if rank(a.kind) != rank(b.kind) {
			return rank(a.kind) < rank(b.kind)
		}
		return rank(a.kind) == len(kinds) && a.kind < b.kind
	})
	for _, one := range documents {
		fmt.Printf("---\n# Source: %s\n%s\n", one.source, one.text)
	}
	return nil
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: render CHART RELEASE NAMESPACE [VALUES.yaml]...")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}
