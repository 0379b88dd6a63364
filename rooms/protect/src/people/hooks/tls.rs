//! Whom a receiver behind `https://` is taken for: whoever shows a certificate of an authority that this machine trusts, or that the
//! operator has named, for the host of its URL.

use std::error::Error as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, InvalidMessage, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_program::escape::escaped;

/// Authorities whose certificates are believed.
#[derive(Clone)]
pub(super) struct Trust(TlsConnector);

/// Why nobody could be believed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file of authorities cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// Which.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The machine trusts nobody.
    #[error(
        "this machine has no authorities that it trusts{0}: install ca-certificates, or name a file of them by `ca`"
    )]
    Nobody(String),
    /// The library refuses its own defaults.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

impl Trust {
    /// The authorities of a file of PEM, and no other; or those that this machine trusts (`SSL_CERT_FILE`, `SSL_CERT_DIR`, or where
    /// its distribution has them). As of now: what changes there later is known after a restart.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate; the machine trusts nobody.
    pub(super) fn load(ca: Option<&Path>) -> Result<Self, TrustError> {
        let roots = match ca {
            Some(path) => named(path)?,
            None => of_machine()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config =
            builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Greets who is behind a connection, who is to be this host; why it is not believed, in one line.
    pub(super) async fn greet(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name of a host"))?;
        self.0.connect(name, stream).await.map_err(|error| told(&error))
    }
}

/// The authorities of a file.
fn named(path: &Path) -> Result<RootCertStore, TrustError> {
    let unreadable = |why: String| TrustError::Unreadable { path: escaped(&path.display().to_string()), why };
    let about = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !about.is_file() {
        return Err(unreadable("it is no regular file".into()));
    }
    if about.len() > LARGEST {
        return Err(unreadable(format!("it has {} bytes: that is no file of certificates", about.len())));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for (number, certificate) in CertificateDer::pem_slice_iter(&bytes).enumerate() {
        let at = |why: String| unreadable(format!("certificate {}: {why}", number + 1));
        let certificate = certificate.map_err(|error| at(error.to_string()))?;
        roots.add(certificate).map_err(|error| at(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("it has no certificate: write PEM, -----BEGIN CERTIFICATE-----".into()));
    }
    Ok(roots)
}

/// Those that this machine trusts; one that cannot be read among many is no reason to believe none of them.
fn of_machine() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(TrustError::Nobody(escaped(&why)));
    }
    Ok(roots)
}

/// Why a handshake failed, and what to do, in one line.
fn told(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let line = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => certificate(why),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it does not speak TLS there (a port of plain http?)".into()
        }
        Some(other) => format!("TLS: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it hangs up during the TLS handshake".into(),
        None => format!("TLS: {error}"),
    };
    // What it says of itself is not ours.
    escaped(&line)
}

fn certificate(why: &CertificateError) -> String {
    match why {
        // Another authority of the same name is one that is not trusted, too.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of an authority that is not trusted here: name a file of it by `ca`".into()
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate is valid until {}", date(not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is valid from {} on (is this machine's clock right?)", date(not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let mut names = presented.iter().take(NAMES).map(|name| bare(name)).collect::<Vec<_>>().join(", ");
            if presented.len() > NAMES {
                names.push_str(", ...");
            }
            let of = if names.is_empty() { "no name".to_owned() } else { names };
            format!("its certificate is for {of}, not for {}", expected.to_str())
        }
        CertificateError::Revoked => "its certificate is revoked".into(),
        CertificateError::Other(other) => {
            unbelieved(&other.source().map_or_else(|| other.to_string(), ToString::to_string))
        }
        other => unbelieved(&other.to_string()),
    }
}

/// As the library says it, but for what people meet.
fn unbelieved(why: &str) -> String {
    if why.contains(OF_AUTHORITY) {
        return "its certificate is that of an authority, signed by itself most likely: give it one without CA:TRUE, and name who \
                signs that, or that one if it is signed by itself, by `ca`"
            .into();
    }
    format!("its certificate is not believed: {why}")
}

/// `DnsName("noc.example")`, `IpAddress(192.0.2.1)`: what is within.
fn bare(name: &str) -> &str {
    let within = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    within.map_or(name, |within| within.trim_matches('"'))
}

fn date(time: &UnixTime) -> String {
    // The year 9999 is as good as any later.
    let seconds = time.as_secs().min(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Names of a certificate that are told.
const NAMES: usize = 4;

/// As the library calls a certificate of an authority that a server shows as its own.
const OF_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Bytes of a file of authorities, at most.
const LARGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
    use tempfile::NamedTempFile;

    use super::*;
    use crate::people::hooks::Url;
    use crate::people::hooks::webhook::Poster;

    /// An authority, and the file that an operator would name.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        file: NamedTempFile,
    }

    impl Authority {
        fn new() -> Self {
            let (mut params, key) =
                (CertificateParams::new(Vec::<String>::new()).unwrap(), KeyPair::generate().unwrap());
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(pem(params.self_signed(&key).unwrap().der()).as_bytes()).unwrap();
            Self { issuer: Issuer::new(params, key), file }
        }

        /// A server for this name, whose certificate is valid from year to year.
        fn server(&self, name: &str, years: (i32, i32)) -> ServerConfig {
            self.server_of(name, years, &[&TLS12, &TLS13])
        }

        fn server_of(
            &self,
            name: &str,
            (from, until): (i32, i32),
            versions: &[&'static SupportedProtocolVersion],
        ) -> ServerConfig {
            let (mut params, key) = (CertificateParams::new([name.to_owned()]).unwrap(), KeyPair::generate().unwrap());
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(versions)
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.into()], key)
                .unwrap()
        }
    }

    /// A certificate as files have it (RFC 7468).
    fn pem(der: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut lines = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in der.chunks(48) {
            for three in line.chunks(3) {
                let bits = three.iter().chain(&[0, 0]).take(3).fold(0, |bits, &byte| bits << 8 | usize::from(byte));
                let digit = |at: usize| DIGITS[bits >> (18 - 6 * at) & 63] as char;
                lines.extend((0..4).map(|at| if at <= three.len() { digit(at) } else { '=' }));
            }
            lines.push('\n');
        }
        lines + "-----END CERTIFICATE-----\n"
    }

    /// Serves one connection on loopback, and answers a request with 204; what it was asked. `None`: it is not greeted.
    fn serve(config: ServerConfig) -> (u16, JoinHandle<Option<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::Stream::new(&mut connection, &mut stream);
            let mut asked = Vec::new();
            while !asked.ends_with(b"}\n") {
                let mut bytes = [0; 4096];
                let length = stream.read(&mut bytes).ok().filter(|length| *length > 0)?;
                asked.extend_from_slice(&bytes[..length]);
            }
            stream.write_all(b"HTTP/1.1 204 Thanks\r\ncontent-length: 0\r\n\r\n").ok()?;
            Some(String::from_utf8(asked).unwrap())
        };
        (port, thread::spawn(serving))
    }

    /// What comes of one try to post.
    fn post(url: &str, ca: &Path) -> Result<(), String> {
        let url: Url = url.parse().unwrap();
        let poster = Poster::new(url, Some(Trust::load(Some(ca)).unwrap()), Duration::from_secs(20));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(poster.post(b"{\"event\":\"announced\"}\n".to_vec()))
    }

    #[test]
    fn whoever_shows_a_certificate_of_the_named_authority_is_told() {
        let authority = Authority::new();
        for name in ["localhost", "127.0.0.1"] {
            for version in [&TLS12, &TLS13] {
                let mut config = authority.server_of(name, (2020, 2999), &[version]);
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                let (port, serving) = serve(config);
                post(&format!("https://{name}:{port}/hook?team=noc"), authority.file.path()).unwrap();
                let asked = serving.join().unwrap().unwrap();
                assert!(asked.starts_with("POST /hook?team=noc HTTP/1.1\r\n"), "{version:?}: {asked}");
                assert!(asked.ends_with("{\"event\":\"announced\"}\n"), "{asked}");
            }
        }
    }

    #[test]
    fn nobody_else_is_and_one_line_says_why() {
        let (authority, other) = (Authority::new(), Authority::new());
        for (name, valid, ca, expected) in [
            ("localhost", (2020, 2999), &other, "its certificate is of an authority that is not trusted here: name"),
            ("localhost", (2010, 2011), &authority, "its certificate is valid until 2011-01-01T00:00:00Z"),
            ("localhost", (2998, 2999), &authority, "its certificate is valid from 2998-01-01T00:00:00Z on (is"),
            ("noc.example", (2020, 2999), &authority, "its certificate is for noc.example, not for localhost"),
        ] {
            let (port, serving) = serve(authority.server(name, valid));
            let why = post(&format!("https://localhost:{port}/"), ca.file.path()).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
            assert_eq!(serving.join().unwrap(), None, "it is told nothing");
        }
    }

    /// As `openssl req -x509` makes them.
    #[test]
    fn a_certificate_that_is_an_authority_of_its_own_is_told_in_words() {
        for is_ca in [true, false] {
            let (mut params, key) =
                (CertificateParams::new(["localhost".to_owned()]).unwrap(), KeyPair::generate().unwrap());
            params.is_ca = if is_ca { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
            let certificate = params.self_signed(&key).unwrap();
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(pem(certificate.der()).as_bytes()).unwrap();
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.into()], key)
                .unwrap();
            let (port, serving) = serve(config);
            let done = post(&format!("https://localhost:{port}/"), file.path());
            match (is_ca, done) {
                (true, Err(why)) => assert!(why.starts_with("its certificate is that of an authority"), "{why}"),
                // What the words advise works.
                (false, done) => done.unwrap(),
                (true, Ok(())) => panic!("it is believed"),
            }
            let _ = serving.join().unwrap();
        }
    }

    #[test]
    fn who_speaks_no_tls_is_told_from_who_hangs_up() {
        let authority = Authority::new();
        for (answer, expected) in
            [(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it does not speak TLS there"), (&b""[..], "it hangs up")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut hello = [0; 64];
                stream.read_exact(&mut hello).unwrap();
                stream.write_all(answer).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                // What is left unread would make the end a reset.
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let why = post(&format!("https://127.0.0.1:{port}/"), authority.file.path()).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
            serving.join().unwrap();
        }
    }

    #[test]
    fn files_without_authorities_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let (empty, broken) = (directory.path().join("empty.pem"), directory.path().join("broken.pem"));
        fs::write(&empty, "no certificates\n").unwrap();
        fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        for (path, expected) in [
            (Path::new("/nowhere/ca.pem"), "/nowhere/ca.pem: No such file"),
            (directory.path(), "it is no regular file"),
            (empty.as_path(), "empty.pem: it has no certificate"),
            (broken.as_path(), "broken.pem: certificate 1: "),
        ] {
            let why = Trust::load(Some(path)).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(expected), "{why}");
        }
    }
}
