//! What an account says beside its numbers, in words.

use std::fmt;

use weir_units::format::{self, counted};

use crate::account::remarks::{Belief, Explanation, Partial, Unknown};
use crate::advice::Advice;
use crate::places::Place;

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SentToIt(why) => write!(f, "what was sent to it: {why}"),
            Self::Sent => f.write_str("what was sent: only a full trace or a session tells (--sent FILE)"),
            Self::BeforeThisHost => f.write_str("before this host: nobody was seen sending here"),
            Self::AnotherSender(more) => write!(
                f,
                "what was sent: {more} more came than were sent in the namespaces followed, so there is another sender (or a \
                 copy on the way, or an announcement that was not heard)"
            ),
            Self::FailedCalls(calls, errno, place) => write!(
                f,
                "where {calls} failed calls would have gone ({errno}, {}): their sockets are not connected: {}",
                place.row().title,
                place.remedy(errno, "")
            ),
            Self::Read => f.write_str("what the program read: only a trace or its own report tells (--received FILE)"),
            Self::ReadJoined => {
                f.write_str("how many datagrams the program read: joined ones (UDP_GRO) of different sizes")
            }
            Self::Queue(bytes) => write!(f, "how many datagrams the {bytes} bytes in the receive queue are"),
            Self::QueueJoined => f.write_str("how many datagrams wait in the receive queue: some are joined (UDP_GRO)"),
            Self::DropsJoined => f.write_str(
                "how many datagrams were lost at a socket that takes them joined (UDP_GRO): it counts buffers",
            ),
            Self::WhyDropped(drops, counted) => {
                let told: Vec<String> =
                    counted.iter().map(|(place, count)| format!("{} {count}", place.name())).collect();
                let told = told.join(", ");
                write!(f, "why the socket dropped {drops}: its namespace counted, other sockets included, {told}")
            }
            Self::Closed => f.write_str("what its socket dropped and left unread when it was closed"),
            Self::ShareOf { counter, packets, place } => {
                write!(f, "how much of {counter} (+{packets}, all ports) is of this traffic: {}", place.name())
            }
            Self::WithoutCounter => {
                f.write_str("losses that leave no counter: firewall, closed with data unread, groups not joined")
            }
            Self::Elsewhere(left) => write!(
                f,
                "what became of {left} that left the namespaces followed: follow the receiver's, too (on another host: --join)"
            ),
            Self::Group => f.write_str("which of them went to the group: all that goes to its port is counted"),
            Self::Missed(events) => write!(f, "{events} events that the trace missed: its totals are lower bounds"),
            Self::Network => f.write_str("what the network lost: an account without a full trace does not tell it"),
            Self::Told(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherSockets => "other sockets, which are not followed, receive at the same port",
            Self::CameOrWent => "it came, or went, while others of its group received",
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: &u64| format::duration(*ns as f64 / 1e3);
        match self {
            Self::SentBeside(beyond) => write!(f, "{beyond} of them were not of that session"),
            Self::SentUntraced { session, traced } => {
                write!(f, "the session sent {session}, of which {traced} were traced")
            }
            Self::ReadBeside(beyond) => write!(f, "{beyond} that it read were not of that session"),
            Self::ReadUntraced { session, traced } => write!(f, "the program counted {session}, the trace {traced}"),
            Self::VanishedBefore(datagrams) => write!(
                f,
                "{datagrams} left the sender and did not come to the receiver's namespace, and no counter tells why"
            ),
            Self::VanishedBehind(datagrams) => write!(
                f,
                "{datagrams} came to the receiver's namespace, and neither its program nor a counter has them: does a DNAT rule give \
                 them another port (`nft list ruleset`), or does a program read joined ones (UDP_GRO) into too small a buffer?"
            ),
            Self::TakenByKernel(datagrams) => write!(
                f,
                "{datagrams} were taken by the kernel itself (a tunnel: VXLAN, Geneve, WireGuard): no program holds a socket of this port"
            ),
            Self::ReadMore(datagrams) => write!(
                f,
                "{datagrams} more were read than came to this port: does a DNAT or redirect rule give it those of another? `nft \
                 list ruleset`; then follow that one, too (or their first fragments came before the account began)"
            ),
            Self::Copied(datagrams) => write!(
                f,
                "{datagrams} more were read than came to this port: a broadcast, or what goes to a group, comes once, and each \
                 socket of its port is given a copy"
            ),
            Self::CutOff(bytes) => write!(f, "{bytes} bytes were cut off: {}", Place::Truncated.row().remedy),
            Self::Upstream(datagrams, place) => {
                write!(f, "{datagrams} more were dropped before they came here: {}", place.row().title)
            }
            Self::MoreCame(datagrams) => write!(
                f,
                "{datagrams} more came than left: another sender, a copy on the way, or accounts that did not begin together"
            ),
            Self::Stalled { longest, total } => write!(
                f,
                "its reader did not read for {} at the longest, while datagrams waited; in all for {}",
                time(longest),
                time(total)
            ),
            Self::Waited(total) => write!(f, "its reader waited for a CPU for {} in all", time(total)),
            Self::Advice(advice) => advise(advice, f),
            Self::OneProcessor(pct) => write!(
                f,
                "while datagrams waited, one CPU spent {} % of the time in softirq, where packets are received: spread them (RPS, more queues)",
                format::short(*pct)
            ),
            Self::Told(words) => f.write_str(words),
        }
    }
}

fn advise(advice: &Advice, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [arrive, read] = [advice.arrive_per_s, advice.read_per_s].map(|per_s| format::short(per_s.round()));
    match advice.receive_buffer {
        _ if advice.is_of_nobody() => write!(f, "no buffer helps: {arrive}/s arrive, and its reader reads nothing"),
        Some(buffer) => write!(
            f,
            "a receive buffer helps: SO_RCVBUF {}, for the worst of {} that it was full; {arrive}/s arrive, and its reader \
             can read {read}/s",
            format::count(buffer.cast_signed()),
            counted(advice.episodes as usize, "time")
        ),
        None => write!(
            f,
            "no buffer helps: {arrive}/s arrive, and its reader can read {read}/s: a faster handler, several datagrams a \
             call (recvmmsg), more readers (SO_REUSEPORT)"
        ),
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost { counter, packets } => {
                write!(f, "{counter}, which counted {packets} on all ports: no more than is missing here")
            }
            Self::OwnSocket => f.write_str("the socket's own counter: others miss drops, or count other sockets, too"),
            Self::Trace => f.write_str("the trace: the counter counts buffers, and other sockets and ports, too"),
            Self::Told(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_host_may_answer_is_found_again_in_json() {
        for unknown in [Unknown::BeforeThisHost, Unknown::Elsewhere(17)] {
            let json = serde_json::to_string(&unknown).unwrap();
            assert_eq!(serde_json::from_str::<Unknown>(&json).unwrap(), unknown);
        }
        let missed: Unknown = Unknown::Missed(3).to_string().into();
        assert_eq!((missed.to_string(), &missed), (Unknown::Missed(3).to_string(), &Unknown::Told(missed.to_string())));
    }
}
