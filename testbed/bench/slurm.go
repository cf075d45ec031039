package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// slurm is a real Slurm of four nodes on this machine: Debian builds it for
// several slurmd on one host, each with its own name, port and spool. It uses
// nothing outside its folder and needs root, as any slurmd does.
type slurm struct {
	dir, program, job string
	env               []string
	daemons           []int
}

const (
	slurmNodes    = 4
	slurmPortBase = 26917
	slurmUpWithin = 20 * time.Second
)

func newSlurm(scratch, program string) (*slurm, error) {
	for _, exe := range []string{"srun", "salloc", "slurmctld", "slurmd", "munged"} {
		if _, err := lookup(exe); err != nil {
			return nil, err
		}
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("slurmd needs root")
	}
	// munged wants a socket that everybody could reach.
	if err := os.Chmod(scratch, 0o711); err != nil {
		return nil, err
	}
	s := &slurm{dir: filepath.Join(scratch, "slurm"), program: program}
	s.env = append(os.Environ(), "SLURM_CONF="+filepath.Join(s.dir, "slurm.conf"))
	if err := s.up(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *slurm) name() string { return "srun" }

func (s *slurm) command(a ask) command {
	argv := []string{"srun", "-Q", "--jobid=" + s.job, "--exact", "-n", strconv.Itoa(a.ranks), "-N", strconv.Itoa(min(a.hosts, a.ranks))}
	if a.mpi {
		argv = append(argv, "--mpi=pmi2")
	}
	return command{argv: append(argv, pick(a, s.program)), env: s.env}
}

// up writes the configuration and starts munged, slurmctld and the slurmd, then
// one allocation of everything, in which each launch is a step.
func (s *slurm) up() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	if err := s.write(host); err != nil {
		return err
	}
	if err := s.daemon("", "munged", "-F", "--key-file="+s.dir+"/munge.key", "--socket="+s.dir+"/munge.sock",
		"--pid-file="+s.dir+"/munged.pid", "--log-file="+s.dir+"/munged.log", "--seed-file="+s.dir+"/munge.seed"); err != nil {
		return err
	}
	if err := s.until("munged", func() bool { _, err := os.Stat(s.dir + "/munge.sock"); return err == nil }); err != nil {
		return err
	}
	if err := s.daemon("", "slurmctld", "-D"); err != nil {
		return err
	}
	for i := range slurmNodes {
		name := "n" + strconv.Itoa(i+1)
		if err := s.daemon(name, "slurmd", "-D", "-N", name); err != nil {
			return err
		}
	}
	if err := s.until("four idle nodes", func() bool { return s.text("sinfo", "-h", "-t", "idle", "-o", "%D") == strconv.Itoa(slurmNodes) }); err != nil {
		return err
	}
	_ = s.text("salloc", "-Q", "-N", strconv.Itoa(slurmNodes), "--exclusive", "--no-shell")
	return s.until("the allocation", func() bool {
		s.job = s.text("squeue", "-h", "-t", "R", "-o", "%i")
		return s.job != ""
	})
}

// write lays out the folder. Each node may claim slotsTotal CPUs, whatever the
// machine has; TmpFS is per node, as the plugins make fixed names in it.
func (s *slurm) write(host string) error {
	for _, d := range []string{"state", "spool", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return err
		}
	}
	conf := []string{
		"ClusterName=bench", "SlurmctldHost=" + host + "(127.0.0.1)", "SlurmctldPort=" + strconv.Itoa(slurmPortBase),
		"AuthType=auth/munge", "AuthInfo=socket=" + s.dir + "/munge.sock", "CredType=cred/munge",
		"SlurmUser=root", "SlurmdUser=root", "StateSaveLocation=" + s.dir + "/state",
		"SlurmdSpoolDir=" + s.dir + "/spool/%n", "TmpFS=" + s.dir + "/tmp/%n",
		"SlurmctldPidFile=" + s.dir + "/slurmctld.pid", "SlurmdPidFile=" + s.dir + "/slurmd.%n.pid",
		"SlurmctldLogFile=" + s.dir + "/slurmctld.log", "SlurmdLogFile=" + s.dir + "/slurmd.%n.log",
		"ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
		"SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "SlurmdParameters=config_overrides",
		"ReturnToService=2", "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
		"JobCompType=jobcomp/none",
	}
	for i := range slurmNodes {
		for _, d := range []string{"spool", "tmp"} {
			if err := os.MkdirAll(fmt.Sprintf("%s/%s/n%d", s.dir, d, i+1), 0o755); err != nil {
				return err
			}
		}
		conf = append(conf, fmt.Sprintf("NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d RealMemory=1000 State=UNKNOWN",
			i+1, host, slurmPortBase+1+i, slotsTotal))
	}
	conf = append(conf, "PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP", "")
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	if err := os.WriteFile(s.dir+"/munge.key", key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(s.dir+"/slurm.conf", []byte(strings.Join(conf, "\n")), 0o644)
}

// daemon starts one in the foreground, in a host name of its own when named,
// so that `hostname` and MPI libraries see different hosts.
func (s *slurm) daemon(host, exe string, args ...string) error {
	path, err := lookup(exe)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, exe+host+".out"))
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append([]string{path}, args...)
	if host != "" {
		argv = append([]string{"/usr/bin/unshare", "-u", "sh", "-c", "hostname " + host + `; exec "$0" "$@"`}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.daemons = append(s.daemons, cmd.Process.Pid)
	return nil
}

func (s *slurm) text(argv ...string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.env
	out, _ := cmd.Output()
	return strings.TrimSpace(string(out))
}

func (s *slurm) until(what string, ok func() bool) error {
	for deadline := time.Now().Add(slurmUpWithin); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("slurm: no %s within %v%s", what, slurmUpWithin, s.lastWords())
		}
	}
	return nil
}

// lastWords are what each daemon said last.
func (s *slurm) lastWords() string {
	var words strings.Builder
	names, _ := filepath.Glob(s.dir + "/*.out")
	for _, name := range names {
		raw, _ := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(&words, "; %s: %s", filepath.Base(name), lines[len(lines)-1])
	}
	return words.String()
}

// close ends the daemons, the last started first.
func (s *slurm) close() {
	if s.job != "" {
		_ = s.text("scancel", s.job)
	}
	for i := len(s.daemons) - 1; i >= 0; i-- {
		pid := s.daemons[i]
		_ = syscall.Kill(pid, syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		timer.Stop()
	}
}
