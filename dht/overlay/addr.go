package overlay

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/filch-hpc/filch"
)

// resolveListen reads Config.Listen and Config.Advertise.
func resolveListen(listen, advertise string) (*net.TCPAddr, net.IP, error) {
	host, port := listen, "0"
	if h, p, err := net.SplitHostPort(listen); err == nil {
		host, port = h, p
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, nil, filch.Errorf(filch.Invalid, "cannot listen on %q: the port is a number up to 65535", listen)
	}
	a := &net.TCPAddr{IP: net.IPv4zero, Port: int(n)}
	if host = strings.Trim(host, "[]"); host != "" {
		if a.IP, err = hostIP(host); err != nil {
			return nil, nil, filch.Errorf(filch.Invalid, "cannot listen on %q: %v", listen, err)
		}
	}
	adv := a.IP
	switch {
	case advertise != "":
		if adv, err = hostIP(advertise); err != nil {
			return nil, nil, filch.Errorf(filch.Invalid, "cannot advertise %q: %v", advertise, err)
		}
	case a.IP.IsUnspecified():
		adv = firstIP()
	}
	return a, adv, nil
}

// hostIP finds the address of an IP, an interface's name or a host's name.
func hostIP(s string) (net.IP, error) {
	if ip := net.ParseIP(s); ip != nil {
		return ip, nil
	}
	if i, err := net.InterfaceByName(s); err == nil {
		if ip := interfaceIP(i); ip != nil {
			return ip, nil
		}
		return nil, fmt.Errorf("interface %s has no address", s)
	}
	ips, err := net.LookupIP(s)
	if err != nil || len(ips) == 0 {
		return nil, fmt.Errorf("%s is no address, interface or host name", s)
	}
	for _, ip := range ips {
		if ip.To4() != nil {
			return ip, nil
		}
	}
	return ips[0], nil
}

func interfaceIP(i *net.Interface) net.IP {
	addrs, err := i.Addrs()
	if err != nil {
		return nil
	}
	var six net.IP
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP
		}
		six = n.IP
	}
	return six
}

// firstIP is the address of the first running interface other than a loopback; a
// machine without such an interface is alone and uses the loopback.
func firstIP() net.IP {
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		if ip := interfaceIP(&i); ip != nil {
			return ip
		}
	}
	return net.IPv4(127, 0, 0, 1)
}

func joinAddr(ip net.IP, port int) string { return net.JoinHostPort(ip.String(), strconv.Itoa(port)) }

func toMultiaddr(ip net.IP, port int) (ma.Multiaddr, error) {
	return manet.FromNetAddr(&net.TCPAddr{IP: ip, Port: port})
}

func fromMultiaddr(m ma.Multiaddr) (net.IP, int, error) {
	a, err := manet.ToNetAddr(m)
	if err != nil {
		return nil, 0, err
	}
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return nil, 0, fmt.Errorf("%v is no address of TCP", m)
	}
	return t.IP, t.Port, nil
}

// parseAddr reads HOST:PORT as a multiaddr, resolving a host's name.
func parseAddr(addr string) (ma.Multiaddr, error) {
	t, err := net.ResolveTCPAddr("tcp", addr)
	var name *net.DNSError
	if host, _, bad := net.SplitHostPort(addr); errors.As(err, &name) && bad == nil && name.Name == host {
		why := "no name server told the address of this name"
		if name.IsNotFound {
			why = "no address of this name is known"
		}
		return nil, filch.Errorf(filch.Unavailable, "cannot use address %q: %s", addr, why)
	}
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot use address %q: want HOST:PORT", addr)
	}
	if t.IP == nil || t.Port == 0 {
		return nil, filch.Errorf(filch.Invalid, "cannot use address %q: want HOST:PORT", addr)
	}
	return toMultiaddr(t.IP, t.Port)
}

// advertised replaces the address of each listen address by ip and keeps the ports.
func advertised(own []ma.Multiaddr, ip net.IP) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, m := range own {
		_, port, err := fromMultiaddr(m)
		if err != nil {
			continue
		}
		if a, err := toMultiaddr(ip, port); err == nil && !ma.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// printable turns a multiaddr into HOST:PORT.
func printable(m ma.Multiaddr) string {
	if m == nil {
		return "?"
	}
	ip, port, err := fromMultiaddr(m)
	if err != nil {
		return m.String()
	}
	return joinAddr(ip, port)
}
