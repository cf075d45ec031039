package local

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// NeverFits decides from the members' totals whether a job can ever start; nil if the job
// can.
func (s *Self) NeverFits(d *stealer.Need) *filch.Error {
	for _, name := range d.Only {
		if i := s.Members.Find(name); i < 0 || s.Members.At(i).Standing > filch.Draining {
			return filch.Errorf(filch.NoFit, "cannot use node %s: there is no such node", name).
				WithHint("filch nodes lists the nodes")
		}
	}
	ranks, nodes := d.Ceiling(s.Members)
	switch {
	case ranks == 0:
		return filch.Errorf(filch.NoFit, "cannot run a rank of %s: no node has that much", RoomText(d)).
			WithHint("%s", s.largestNode(d))
	case nodes < d.MinNodes:
		return filch.Errorf(filch.NoFit, "cannot use %d nodes: %d could take part", d.MinNodes, nodes).
			WithHint("largest that fits: -N %d", nodes)
	case ranks < int64(d.Ranks):
		return filch.Errorf(filch.NoFit, "cannot run %d ranks of %s: %d nodes have room for %d", d.Ranks, RoomText(d), nodes, ranks).
			WithHint("largest that fits: -n %d", ranks)
	}
	return nil
}

// NeverFitsTask decides from the members' totals whether a task with this room can ever
// start; nil if the task can.
func (s *Self) NeverFitsTask(each filch.Room) *filch.Error {
	d := stealer.Need{Ranks: 1, Each: each, MinNodes: 1}
	err := s.NeverFits(&d)
	if err != nil {
		err.Text = fmt.Sprintf("cannot run a task of %s: no node has that much", RoomText(&d))
	}
	return err
}

// RoomText describes the room of a rank, by the options of the job.
func RoomText(d *stealer.Need) string {
	parts := []string{fmt.Sprintf("%d slots", d.Each.Slots)}
	if d.Each.Slots == 1 {
		parts[0] = "1 slot"
	}
	if d.Each.MemBytes > 0 {
		parts = append(parts, memText(d.Each.MemBytes))
	}
	if d.Each.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs", d.Each.GPUs))
	}
	return strings.Join(parts, ", ")
}

func memText(b int64) string {
	switch {
	case b >= 1<<30 && b%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", b>>30)
	case b >= 1<<20:
		return fmt.Sprintf("%d MiB", b>>20)
	}
	return fmt.Sprintf("%d bytes", b)
}

// largestNode describes the largest amounts on any single node.
func (s *Self) largestNode(d *stealer.Need) string {
	var most filch.Room
	for i := range s.Members.Len() {
		p := s.Members.At(int32(i))
		if p.Standing <= filch.Draining && d.Allows(p.Name) {
			most.Slots = max(most.Slots, p.Total.Slots)
			most.MemBytes = max(most.MemBytes, p.Total.MemBytes)
			most.GPUs = max(most.GPUs, p.Total.GPUs)
		}
	}
	slots := "1 slot"
	if most.Slots != 1 {
		slots = fmt.Sprintf("%d slots", most.Slots)
	}
	return fmt.Sprintf("the most on one node: %s, %s, %d GPUs", slots, memText(most.MemBytes), most.GPUs)
}
