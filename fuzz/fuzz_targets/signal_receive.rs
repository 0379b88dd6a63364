//! Signal datagrams of several senders, as they come: whatever it is, each has one fate, and no sample is left out without a gap.
#![no_main]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_signal::receive::{Bounds, Follow, Moment, News, Sessions, Sink, Stream, Witness};
use weir_wire::signal::{Block, Channel};

#[derive(Default)]
struct InOrder(HashMap<(u64, u16), u64>);

impl Sink for InOrder {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}

    fn block(&mut self, stream: &Arc<Stream>, block: &Block<'_>) {
        let next = self.0.insert((stream.session, block.channel), block.end());
        assert!(next.is_none_or(|next| block.first <= next));
    }

    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

struct Nobody;

impl Witness for Nobody {
    fn host_dropped(&mut self, _: Duration) -> bool {
        false
    }
}

fuzz_target!(|datagrams: Vec<(u8, Vec<u8>)>| {
    let source = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 5110);
    let mut sessions = Sessions::new(Bounds { sessions: 4, ..Bounds::default() });
    let mut sink = Follow::new(InOrder::default());
    let mut moment = Moment::default();
    for (millis, bytes) in &datagrams {
        moment.now += Duration::from_millis(u64::from(*millis) * 4);
        sessions.look(moment, &mut Nobody, &mut sink);
        sessions.take(bytes, source, moment, &mut Nobody, &mut sink);
    }
    assert_eq!(sessions.counts(0).unexplained(), 0);
});
