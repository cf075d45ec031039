package slurm

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// write lays out the folder. TmpFS is each node's own, as the plugins make fixed
// names in it.
func (c *Cluster) write() error {
	if err := os.Chmod(c.Dir, 0o755); err != nil { // munged wants a socket that everybody could reach
		return err
	}
	dirs := []string{"state", "local"}
	for i := range c.Nodes {
		dirs = append(dirs, "spool/"+c.Node(i), "tmp/"+c.Node(i), "node/"+c.Node(i))
	}
	for _, d := range dirs {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			return err
		}
	}
	conf := []string{
		"ClusterName=filch", fmt.Sprintf("SlurmctldHost=%s(127.0.0.1)", c.host), fmt.Sprintf("SlurmctldPort=%d", c.ports[0]),
		"AuthType=auth/munge", "AuthInfo=socket=" + c.path("munge.sock"), "CredType=cred/munge",
		"SlurmUser=root", "SlurmdUser=root", "StateSaveLocation=" + c.path("state"),
		"SlurmdSpoolDir=" + c.path("spool/%n"), "TmpFS=" + c.path("tmp/%n"),
		"SlurmctldPidFile=" + c.path("slurmctld.pid"), "SlurmdPidFile=" + c.path("slurmd.%n.pid"),
		"SlurmctldLogFile=" + c.path("slurmctld.log"), "SlurmdLogFile=" + c.path("slurmd.%n.log"),
		"ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
		"SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "SlurmdParameters=config_overrides",
		"SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1",
		"ReturnToService=2", "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
		"JobCompType=jobcomp/none", "MaxArraySize=10001", "KillWait=5", "MinJobAge=300",
		"SlurmctldDebug=info", "SlurmdDebug=info",
	}
	conf = append(conf, c.Conf...)
	gres := ""
	if c.GPUs > 0 {
		conf, gres = append(conf, "GresTypes=gpu"), fmt.Sprintf("Gres=gpu:%d ", c.GPUs)
		if err := c.writeGPUs(); err != nil {
			return err
		}
	}
	for i := range c.Nodes {
		conf = append(conf, fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d RealMemory=4000 %sState=UNKNOWN",
			c.Node(i), c.host, c.ports[i+1], c.CPUs, gres))
	}
	conf = append(conf, "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP", "")
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	if err := os.WriteFile(c.path("munge.key"), key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.conf(), []byte(strings.Join(conf, "\n")), 0o644)
}

// nullDevice is the number of a device that everybody may use.
const nullDevice = 1<<8 | 3

// writeGPUs makes a device for each GPU of a node, and gres.conf: nodes share the devices.
func (c *Cluster) writeGPUs() error {
	var text strings.Builder
	for i := range c.GPUs {
		file := c.path(fmt.Sprintf("gpu%d", i))
		if err := syscall.Mknod(file, syscall.S_IFCHR|0o666, nullDevice); err != nil {
			return err
		}
		text.WriteString("Name=gpu File=" + file + "\n")
	}
	return os.WriteFile(c.path("gres.conf"), []byte(text.String()), 0o644)
}

// freePorts are n ports of the loopback that nobody listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
