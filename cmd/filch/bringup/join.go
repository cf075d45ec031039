package bringup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// invitation is the input for another machine to become a node: the addresses and
// the secret. Its file has mode 0600.
type invitation struct {
	place.Contact
	Secret string `json:"secret"` // hexadecimal
}

func InviteCommand(g *cli.Global) *cobra.Command {
	file := ""
	c := &cobra.Command{
		Use:     "invite [-o FILE]",
		GroupID: "nodes",
		Short:   "write an invitation, with which another machine can join",
		Long: `Writes a file with addresses and the secret of this instance. Everybody who can read
the file can add nodes and start programs as you: keep the file private, and copy it
with scp.`,
		Example: "  filch invite -o invitation      then, on the other machine: filch join invitation",
		RunE: func(*cobra.Command, []string) error {
			if _, err := os.Stat(filepath.Dir(file)); err != nil {
				return filch.Errorf(filch.Invalid, "cannot write %s: %s", ui.Clean(file), ui.Cause(err))
			}
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := cli.QueryNodes(c)
			if err != nil {
				return err
			}
			node, err := place.ReadNode(c.Dir.NodeFile())
			if err != nil {
				return err
			}
			secret, err := place.ReadPrivate(node.Secret)
			if err != nil {
				return err
			}
			inv := invitation{Contact: place.Contact{Instance: c.Dir.Instance, UUID: node.UUID, Wire: cli.WireVersion}, Secret: string(trimEnd(secret))}
			if inv.Addrs = cli.Reachable(list); len(inv.Addrs) == 0 {
				return filch.Errorf(filch.Unavailable, "no launcher of %s listens on an address that other machines reach", c.Dir.Instance).
					WithHint("start the instance with: filch up --nodes 1 --iface INTERFACE")
			}
			b, err := json.MarshalIndent(inv, "", "  ")
			if err != nil {
				return err
			}
			if err := place.WritePrivate(file, append(b, '\n')); err != nil {
				return err
			}
			fmt.Printf("wrote %s; on the other machine: filch join %s\n", file, file)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "filch-invitation", "write `FILE`, with mode 0600")
	return c
}

func trimEnd(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return b
}

// joinOptions are the options of filch join.
type joinOptions struct {
	upOptions
	secret string
	name   string
}

func JoinCommand(g *cli.Global) *cobra.Command {
	o := &joinOptions{upOptions: upOptions{Global: g}}
	c := &cobra.Command{
		Use:     "join ADDRESS --secret FILE | join INVITATION",
		GroupID: "nodes",
		Short:   "make this machine a node of an instance",
		Long: `Starts a launcher on this machine, which joins an instance through the node at
ADDRESS. filch join reads the secret of the instance from a file that only you may
read, or with - from standard input, so that no command line shows the secret.`,
		Example: `  filch join invitation
  filch join 10.0.0.7:41873 --secret ~/.filch/bold-otter/secret
  ssh head cat .filch/bold-otter/secret | filch join 10.0.0.7:41873 --secret -`,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return noInstance(o.secret)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.join(args[0]) },
	}
	c.Flags().StringVar(&o.secret, "secret", "", "`FILE` with the instance's secret, - for standard input")
	c.Flags().StringVar(&o.name, "name", "", "`NAME` of this node (default: the host name)")
	c.Flags().IntVar(&o.slots, "slots", 0, "`N` slots (default: the number of cores that this process may use)")
	hintVar(c, &o.hint)
	o.kinds.declare(c.Flags())
	c.Flags().StringVar(&o.address, "address", "", "`IP` address to listen on (default: the address from which ADDRESS is reached)")
	c.Flags().StringVar(&o.iface, "iface", "", "network `INTERFACE` to listen on")
	c.Flags().IntVar(&o.port, "port", 0, "`PORT` to listen on (default: any free port)")
	return c
}

func (o *joinOptions) join(where string) error {
	if err := o.check(nil); err != nil {
		return err
	}
	inv, err := o.invited(where)
	if err != nil {
		return err
	}
	base, err := place.Base()
	if err != nil {
		return err
	}
	name := o.name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return filch.Errorf(filch.Unavailable, "cannot find the host name: %s", ui.Cause(err)).WithHint("give the node a name: --name NAME")
		}
	}
	if err := place.CheckInstance(inv.Instance); err != nil {
		return ui.Misused(err)
	}
	if err := place.CheckNode(name); err != nil {
		return ui.Misused(cli.OfOption("name", err))
	}
	b := &localNodes{base: base, instance: inv.Instance, port: o.port, threads: o.hint == hintThreads, kinds: o.kinds}
	dir := place.Dir{Base: base, Instance: inv.Instance, Node: name}
	if answers(dir) {
		return alreadyUp(inv.Instance, 1, nil)
	}
	if b.host, err = o.joinHost(inv.Addrs[0]); err != nil {
		return err
	}
	if err := b.joinAs(dir, inv, o.slots); err != nil {
		b.clear()
		return err
	}
	list, err := nodesOf(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%s is a node of %s, which has %s\n", name, inv.Instance, filch.Plural(len(list), "node"))
	return nil
}

// noInstance is the error of a join that does not say where: with an invitation, one file is all
// that is needed; else the address of a node, and the secret.
func noInstance(secret string) error {
	if secret != "" {
		return filch.Errorf(filch.Invalid, "filch join has a secret, and needs the address of a node of the instance, HOST:PORT").
			WithHint("for example filch join 10.0.0.7:41873 --secret %s; filch nodes shows the addresses", secret)
	}
	return filch.Errorf(filch.Invalid, "filch join needs an invitation, or the address of a node and the secret of the instance").
		WithHint("filch invite, on a node, writes the invitation: filch join filch-invitation; or filch join 10.0.0.7:41873 --secret FILE")
}

// joinHost is the address to listen on.
func (o *joinOptions) joinHost(seed string) (string, error) {
	if o.address != "" || o.iface != "" {
		return o.listenHost()
	}
	host, err := addressTowards(seed)
	if err != nil {
		return "", filch.Errorf(filch.Unavailable, "cannot reach %s: %s", seed, ui.Cause(err))
	}
	return host, nil
}

// invited reads the invitation, or makes an invitation of an address and a
// secret.
func (o *joinOptions) invited(where string) (invitation, error) {
	var inv invitation
	if _, _, err := net.SplitHostPort(where); err != nil {
		if o.secret != "" {
			return inv, ui.Misused(filch.Errorf(filch.Invalid, "%s is not an address, HOST:PORT", strconv.Quote(where)))
		}
		b, err := place.ReadPrivate(where)
		if err != nil {
			return inv, ui.Misused(err)
		}
		if err := json.Unmarshal(b, &inv); err != nil || len(inv.Addrs) == 0 || inv.Instance == "" {
			return inv, filch.Errorf(filch.Invalid, "%s is not an invitation", where).WithHint("filch invite writes an invitation")
		}
		if inv.Wire != cli.WireVersion {
			return inv, filch.Errorf(filch.Invalid, "%s speaks wire version %d, this filch speaks %d", inv.Instance, inv.Wire, cli.WireVersion).
				WithHint("use one version of filch on all nodes")
		}
		return inv, nil
	}
	if o.secret == "" {
		return inv, ui.Misused(filch.Errorf(filch.Invalid, "joining %s needs the secret of the instance", where).
			WithHint("use --secret FILE; or use filch invite, which writes address and secret into one file"))
	}
	b, err := readSecretFile(o.secret)
	if err != nil {
		return inv, ui.Misused(err)
	}
	secret, err := place.ParseSecret(b, o.secret)
	if err != nil {
		return inv, err
	}
	inv.Instance, inv.UUID, inv.Addrs, inv.Secret = o.Instance, uuidOf(secret), []string{where}, hex.EncodeToString(secret)
	inv.Wire = cli.WireVersion
	if inv.Instance == "" {
		inv.Instance = instanceOfSecret(o.secret, secret)
	}
	return inv, nil
}

// instanceOfSecret is the name of the instance of a secret: the folder's name if
// the file lies in the home of an instance, else the name chosen by filch up.
func instanceOfSecret(path string, secret []byte) string {
	if dir := filepath.Base(filepath.Dir(path)); filepath.Base(path) == "secret" && filepath.IsAbs(path) && place.CheckInstance(dir) == nil {
		return dir
	}
	return twoWords(secret)
}

func readSecretFile(path string) ([]byte, error) {
	if path != "-" {
		return place.ReadPrivate(path)
	}
	b, err := io.ReadAll(io.LimitReader(os.Stdin, 4096))
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read the secret from standard input: %s", ui.Cause(err))
	}
	return b, nil
}

// joinAs writes the launcher's files, starts the launcher, and waits until the
// launcher has joined.
func (b *localNodes) joinAs(dir place.Dir, inv invitation, slots int) error {
	if err := b.prepare(1); err != nil {
		return err
	}
	secret, err := place.ParseSecret([]byte(inv.Secret), "the invitation")
	if err != nil {
		return err
	}
	home, err := place.HomeOf(inv.Instance)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(home.Secret()); err != nil {
		if err := home.Make(); err != nil {
			return err
		}
		b.fresh = true
		if err := place.WriteSecret(home.Secret(), secret); err != nil {
			return err
		}
	} else if had, err := place.ReadSecret(home.Secret()); err != nil {
		return err
	} else if !bytes.Equal(had, secret) {
		return filch.Errorf(filch.Denied, "cannot join: %s holds the secret of another instance, also called %s", home.Secret(), inv.Instance).
			WithHint("if the other instance has ended on all machines that share the folder: rm -r %s", filepath.Dir(home.Secret()))
	}
	b.nodes = []place.Dir{dir}
	b.members = []place.Node{{
		Dir: dir, UUID: inv.UUID, Secret: home.Secret(), Keeper: b.keeper, Listen: b.listen(0),
		Alloc: place.Alloc{Queue: queueHere(home, inv.UUID)},
	}}
	b.share(0, 1, slots)
	if err := b.kinds.give(&b.members[0]); err != nil {
		return err
	}
	if err := b.startAndWait(0, inv.Addrs); err != nil {
		return err
	}
	if err := b.gathered(2); err != nil {
		return err
	}
	return home.WriteContact(inv.Contact) // the join proved the contact right
}
