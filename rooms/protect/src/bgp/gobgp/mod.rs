//! gobgpd's gRPC interface, of v3 and of v4: one set of messages, two names of the service, enumerations that begin elsewhere.

mod connection;
pub(super) mod messages;

use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Uri;
use http::uri::PathAndQuery;
use ipnet::IpNet;
use prost::Message;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use weir_program::escape::escaped;

use self::connection::Connection;
use self::messages::{
    AddPathStreamRequest, Empty, GetBgpResponse, Global, ListPathRequest, ListPathResponse, ListPeerResponse, Path,
    Peer, TableLookupPrefix,
};
use super::wire::{Attributes, Family, Key};
use crate::model::Neighbour;

/// Why something was not done: one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// gobgpd does not answer any more: the session is over.
    Lost(String),
    /// It answers that it will not.
    Refused(String),
}

/// A path that is to be withdrawn, or announced: what it is, and whether it goes.
pub(super) type Change<'a> = (&'a Key, &'a Attributes, bool);

/// A session with gobgpd.
pub(super) struct Client {
    grpc: Grpc<Connection>,
    version: Version,
    /// Ends with the connection.
    driver: JoinHandle<()>,
}

/// Which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V3,
    V4,
}

impl Client {
    /// Connects, and finds out which version answers and what it is.
    pub(super) async fn connect(address: &str) -> Result<(Self, Global), Failure> {
        let lost = |why: &str| Failure::Lost(escaped(why));
        let origin: Uri = format!("http://{address}").parse().map_err(|_| lost("that is no host:port"))?;
        let connection = timeout(PATIENCE, Connection::open(address)).await;
        let (connection, driver) = connection.map_err(|_| lost(SILENT))?.map_err(|why| lost(&why))?;
        let mut client = Self { grpc: Grpc::with_origin(connection, origin), version: Version::V4, driver };
        client.grpc = client.grpc.max_decoding_message_size(LONGEST_MESSAGE);
        let mut global = client.global().await;
        if let Err(status) = &global
            && status.code() == Code::Unimplemented
        {
            client.version = Version::V3;
            global = client.global().await;
        }
        let global = global.map_err(|status| match failure(&status) {
            Failure::Lost(why) | Failure::Refused(why) => Failure::Lost(why),
        })?;
        match global {
            Some(global) if global.asn != 0 => Ok((client, global)),
            _ => Err(lost("gobgpd has no AS yet (give it a [global.config] with as and router-id)")),
        }
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Waits until the connection ends. Not to be called again after that.
    pub(super) async fn ended(&mut self) {
        let _ = (&mut self.driver).await;
    }

    async fn global(&mut self) -> Result<Option<Global>, Status> {
        let mut global = None;
        self.each("GetBgp", Empty {}, |answer: GetBgpResponse| global = answer.global).await?;
        Ok(global)
    }

    /// Its neighbours.
    pub(super) async fn peers(&mut self) -> Result<Vec<Peer>, Failure> {
        let mut peers = Vec::new();
        let answers = self.each("ListPeer", Empty {}, |answer: ListPeerResponse| peers.extend(answer.peer)).await;
        answers.map_err(|status| failure(&status)).map(|()| peers)
    }

    /// The local paths of a family, those of some prefixes alone where there are any given (unicast): all of one place at once.
    pub(super) async fn local_paths(
        &mut self,
        family: Family,
        prefixes: &[IpNet],
        mut take: impl FnMut(Vec<Local>),
    ) -> Result<(), Failure> {
        self.paths(GLOBAL, String::new(), family, prefixes, |paths| {
            take(paths.into_iter().filter_map(|path| Local::read(family, path)).collect());
        })
        .await
    }

    /// What it has sent to a neighbour of a family, of these prefixes alone where there are any given (unicast).
    pub(super) async fn sent_to(
        &mut self,
        neighbour: IpAddr,
        family: Family,
        prefixes: &[IpNet],
        mut take: impl FnMut(Key),
    ) -> Result<(), Failure> {
        self.paths(ADJ_OUT, neighbour.to_string(), family, prefixes, |paths| {
            paths.into_iter().for_each(|path| take(Key { family, nlri: path.nlri_binary }));
        })
        .await
    }

    async fn paths(
        &mut self,
        table: i32,
        name: String,
        family: Family,
        prefixes: &[IpNet],
        mut take: impl FnMut(Vec<Path>),
    ) -> Result<(), Failure> {
        let exact = self.version.number(0);
        let prefixes = prefixes.iter().map(|prefix| TableLookupPrefix { prefix: prefix.to_string(), r#type: exact });
        let request = ListPathRequest {
            table_type: self.version.number(table),
            name,
            family: Some(family.into()),
            prefixes: prefixes.collect(),
            enable_only_binary: true,
        };
        self.each("ListPath", request, |answer: ListPathResponse| {
            take(answer.destination.map(|destination| destination.paths).unwrap_or_default());
        })
        .await
        .map_err(|status| failure(&status))
    }

    /// Withdraws and announces, in this order.
    pub(super) async fn change(&mut self, changes: &[Change<'_>]) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = messages::Timestamp { seconds: now.as_secs().cast_signed(), nanos: now.subsec_nanos().cast_signed() };
        let path = |&(key, attributes, is_withdraw): &Change<'_>| Path {
            age: Some(now),
            is_withdraw,
            family: Some(key.family.into()),
            neighbor_ip: String::new(),
            nlri_binary: key.nlri.clone(),
            pattrs_binary: attributes.encode(key.family),
        };
        let table_type = self.version.number(GLOBAL);
        let request =
            |changes: &[Change<'_>]| AddPathStreamRequest { table_type, paths: changes.iter().map(path).collect() };
        let requests: Vec<AddPathStreamRequest> = changes.chunks(CHUNK).map(request).collect();
        let path = self.version.path("AddPathStream");
        let changed = async {
            self.ready().await?;
            let codec = ProstCodec::<AddPathStreamRequest, Empty>::default();
            self.grpc.client_streaming(Request::new(tokio_stream::iter(requests)), path, codec).await
        };
        let changed = timeout(PATIENCE, changed).await.unwrap_or_else(|_| Err(silent()));
        changed.map(drop).map_err(|status| failure(&status))
    }

    /// Takes all answers of a call. Each may let us wait, all together as often as they like.
    async fn each<Q, R>(&mut self, method: &str, request: Q, mut take: impl FnMut(R)) -> Result<(), Status>
    where
        Q: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let path = self.version.path(method);
        let answers = async {
            self.ready().await?;
            self.grpc.server_streaming(Request::new(request), path, ProstCodec::<Q, R>::default()).await
        };
        let mut answers = timeout(PATIENCE, answers).await.unwrap_or_else(|_| Err(silent()))?.into_inner();
        while let Some(answer) = timeout(PATIENCE, answers.message()).await.unwrap_or_else(|_| Err(silent()))? {
            take(answer);
        }
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))
    }
}

impl Version {
    fn path(self, method: &str) -> PathAndQuery {
        let service = if self == Version::V3 { "apipb.GobgpApi" } else { "api.GoBgpService" };
        // Methods are words of this file.
        PathAndQuery::try_from(format!("/{service}/{method}")).unwrap_or_else(|_| PathAndQuery::from_static("/"))
    }

    /// A value of an enumeration by v3's number: in v4 a value for `unspecified` stands before all.
    fn number(self, number: i32) -> i32 {
        number + i32::from(self == Version::V4)
    }

    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        if self == Version::V3 { "v3" } else { "v4" }
    }
}

/// A path that was put into gobgpd, by us or by others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Local {
    pub(super) key: Key,
    pub(super) attributes: Attributes,
    /// When it came there.
    pub(super) since: SystemTime,
}

impl Local {
    /// `None`: a neighbour's, or nothing that can be named.
    pub(super) fn read(family: Family, path: Path) -> Option<Self> {
        let is_neighbours = path.neighbor_ip.parse::<IpAddr>().is_ok_and(|address| !address.is_unspecified());
        if is_neighbours || path.is_withdraw || path.nlri_binary.is_empty() {
            return None;
        }
        let age = path.age.map(|age| Duration::new(age.seconds.unsigned_abs(), age.nanos.unsigned_abs()));
        let since = age.and_then(|age| UNIX_EPOCH.checked_add(age)).unwrap_or_else(SystemTime::now);
        let attributes = Attributes::decode(&path.pattrs_binary);
        Some(Self { key: Key { family, nlri: path.nlri_binary }, attributes, since })
    }
}

/// How a neighbour is; `None`: the answer names no address.
pub(super) fn neighbour(peer: &Peer) -> Option<Neighbour> {
    let state = peer.state.as_ref()?;
    let number = usize::try_from(state.session_state).unwrap_or(0);
    let name = STATES.get(number).unwrap_or(&STATES[0]);
    Some(Neighbour { address: state.neighbor_address.parse().ok()?, asn: state.peer_asn, state: name })
}

/// As RFC 4271, section 8.2.2 calls them.
const STATES: [&str; 7] = ["unknown", "Idle", "Connect", "Active", "OpenSent", "OpenConfirm", "Established"];

impl From<Family> for messages::Family {
    fn from(family: Family) -> Self {
        Self { afi: family.afi().into(), safi: family.safi().into() }
    }
}

/// What a status means. Those that gobgpd sends have no source; an error of the connection is one.
fn failure(status: &Status) -> Failure {
    let is_lost = status.source().is_some()
        || matches!(
            status.code(),
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Unimplemented
                | Code::ResourceExhausted
        );
    let mut why = escaped(status.message());
    if let Some(end) = why.char_indices().nth(LONGEST_LINE).map(|(end, _)| end) {
        why.truncate(end);
    }
    if is_lost { Failure::Lost(why) } else { Failure::Refused(why) }
}

fn silent() -> Status {
    Status::deadline_exceeded(SILENT)
}

const SILENT: &str = "it does not answer";

/// Longest time to an answer, or to the next part of one.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Paths a message.
const CHUNK: usize = 250;

/// `TableType`, of v3.
const GLOBAL: i32 = 0;
const ADJ_OUT: i32 = 3;

/// Bytes of an answer: far more than one with a path.
const LONGEST_MESSAGE: usize = 4 << 20;

/// Characters of what gobgpd says.
const LONGEST_LINE: usize = 200;
