// Decodes the datagrams of a file with the library of goflow2, in memory: decode FILE SECONDS [headers].
//
// The file has each datagram behind its length, 32 bits, little-endian. It prints datagrams, samples, and CPU time in ns.
// With "headers" it makes of each sample the message that goflow2 would write, for which it walks the sampled header, too.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/netsampler/goflow2/v2/decoders/sflow"
	interfaces "github.com/netsampler/goflow2/v2/producer"
	protoproducer "github.com/netsampler/goflow2/v2/producer/proto"
)

func main() {
	file, err := os.ReadFile(os.Args[1])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	check(err)
	headers := len(os.Args) > 3
	var datagrams [][]byte
	for len(file) > 0 {
		length := binary.LittleEndian.Uint32(file)
		datagrams = append(datagrams, file[4:4+length])
		file = file[4+length:]
	}
	configuration, err := (&protoproducer.ProducerConfig{}).Compile()
	check(err)
	producer, err := protoproducer.CreateProtoProducer(configuration, protoproducer.CreateSamplingSystem)
	check(err)
	var arguments interfaces.ProduceArgs
	var count, samples uint64
	start, before := time.Now(), cpu()
	for time.Since(start).Seconds() < seconds {
		for _, datagram := range datagrams {
			var packet sflow.Packet
			check(sflow.DecodeMessageVersion(bytes.NewBuffer(datagram), &packet))
			samples += uint64(len(packet.Samples))
			if headers {
				messages, err := producer.Produce(&packet, &arguments)
				check(err)
				producer.Commit(messages)
			}
		}
		count += uint64(len(datagrams))
	}
	fmt.Println(count, samples, cpu()-before)
}

func cpu() int64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
