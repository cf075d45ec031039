package bringup

import (
	"crypto/sha256"
	"strings"
)

const (
	adjectives = "amber bold brave brisk calm clever cosmic crisp daring eager early fair fleet fond free fresh gentle glad golden grand happy hardy honest humble jolly keen kind lively loyal lucky lunar mellow merry mild modest neat nimble noble plucky polite proud quick quiet rapid rare ready royal rustic serene sharp silent silver sleek snappy solar solid spry steady sunny sure swift tidy warm witty"
	nouns      = "badger beaver bison bobcat cobra condor coyote crane cricket dingo dolphin eagle egret falcon ferret finch gecko gibbon goose hare heron hornet ibex iguana jackal jackdaw jaguar kestrel kiwi lemur lynx magpie marmot marten mole moose newt ocelot orca osprey otter owl panda parrot pelican pika puffin puma quail rabbit raccoon raven robin salmon seal shrew sparrow squid stoat swan tapir tern toad trout turtle viper walrus weasel wombat wren yak zebra"
)

// twoWords names the instance of a secret, like bold-otter, so that joining
// machines derive the same name.
func twoWords(secret []byte) string {
	sum := sha256.Sum256(append([]byte("filch name"), secret...))
	first, second := strings.Fields(adjectives), strings.Fields(nouns)
	return first[(int(sum[0])<<8|int(sum[1]))%len(first)] + "-" + second[(int(sum[2])<<8|int(sum[3]))%len(second)]
}

// uuidOf is the identity of the instance of this secret: a machine with the
// secret can join without further data.
func uuidOf(secret []byte) string {
	h := sha256.New()
	h.Write([]byte("filch instance"))
	h.Write(secret)
	b := h.Sum(nil)
	b[6] = b[6]&0x0f | 0x80 // version 8: a custom derivation
	b[8] = b[8]&0x3f | 0x80
	const digits = "0123456789abcdef"
	var s strings.Builder
	for i, c := range b[:16] {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			s.WriteByte('-')
		}
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}
