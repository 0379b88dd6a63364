//! Arbitrary bytes as a signal datagram: everything in it is read, and blocks are copied to another that reads the same.
//!
//! `cargo +nightly fuzz run signal` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_signal::seal::Opener;
use weir_signal::thin::Thinner;
use weir_wire::signal::{Body, Datagram, Kind, Metadata, Packer};

fuzz_target!(|bytes: &[u8]| {
    let mut scratch = Vec::new();
    let opened = Opener::default().open(bytes, &mut scratch).is_ok();
    let Ok(datagram) = Datagram::parse(bytes) else { return };
    assert!(opened, "what is not sealed needs no key");
    match datagram.body {
        Body::Data(blocks) => {
            let (mut packer, mut thinner) = (Packer::new(65_507), Thinner::new(7));
            let mut samples = 0;
            for block in blocks {
                assert!(block.end() > block.first);
                samples += block.each().len() + block.buckets().len();
                thinner.push_block(&block, |thinned| assert!(thinned.samples > 0));
                if bytes.len() <= 65_507 {
                    assert!(packer.copy(&block), "it fitted before");
                }
            }
            thinner.flush(|thinned| assert!(thinned.samples > 0));
            assert!(samples <= bytes.len());
            if bytes.len() <= 65_507 {
                let again = packer.finish(datagram.header);
                assert_eq!(again.len(), bytes.len());
                assert!(Datagram::parse(again).is_ok());
            }
        }
        Body::Heartbeat(positions) | Body::End(positions) => {
            assert_ne!(datagram.header.kind, Kind::Data);
            assert_eq!(positions.count(), usize::from(datagram.header.count));
        }
        Body::Metadata(body) => {
            if let Ok(metadata) = Metadata::parse(body) {
                let mut again = Vec::new();
                metadata.write_sender(&mut again);
                metadata.channels.iter().for_each(|channel| channel.write(&mut again));
                assert!(Metadata::parse(&again).is_ok());
            }
        }
        Body::Reserved => {}
    }
});
