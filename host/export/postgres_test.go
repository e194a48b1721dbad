package export

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// postgres is a server of its own, which nobody else reaches.
type postgres struct{ dir string }

// startPostgres starts one, as the user postgres where the test is run by root, which the server refuses.
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("no postgres")
	}
	slices.Sort(found)
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "moe-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := func(args ...string) *exec.Cmd {
		if os.Getuid() == 0 {
			args = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"}, args...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = "/"
		return cmd
	}
	if os.Getuid() == 0 {
		run(t, "chown", "postgres", dir)
	}
	data := filepath.Join(dir, "data")
	if out, err := as(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := as(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-F")
	var said strings.Builder
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
	})
	p := &postgres{dir}
	for range 300 {
		if p.psql("-c", "SELECT 1").Run() == nil {
			return p
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("postgres does not answer: %s", said.String())
	return nil
}

func (p *postgres) psql(args ...string) *exec.Cmd {
	cmd := exec.Command("psql", append([]string{"-h", p.dir, "-U", "postgres", "-X", "-q", "--csv", "-v", "ON_ERROR_STOP=1",
		"-P", "null="}, args...)...)
	cmd.Env = append(os.Environ(), "PGCLIENTENCODING=UTF8")
	return cmd
}

// query runs an example and writes what it says as JSON.
func (p *postgres) query(t *testing.T, dir, name string) {
	t.Helper()
	at := filepath.Join(dir, name)
	cmd := p.psql("-c", "DROP TABLE IF EXISTS "+sqlName(sqlTable), "-f", at+".load.sql", "-f", at+".sql")
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v: %s", name, err, faults.String())
		return
	}
	records, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(name, err)
	}
	result := map[string]any{"names": records[0]}
	var rows [][]any
	for _, record := range records[1:] {
		row := make([]any, len(record))
		for i, v := range record {
			if v != "" {
				row[i] = json.Number(v)
			}
		}
		rows = append(rows, row)
	}
	result["rows"] = rows
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(name, err)
	}
	write(t, at+".postgres.json", text)
}
