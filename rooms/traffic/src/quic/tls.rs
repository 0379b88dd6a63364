//! The key of this process, presented raw (RFC 7250).

use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, PeerIncompatible, ServerConfig, SignatureScheme};

use crate::{TrafficError, Transport};

/// For an end that presents the key of this process: created at the first call, never stored.
pub(super) fn server(transport: Transport) -> Result<quinn_proto::ServerConfig, TrafficError> {
    static KEY: OnceLock<Result<Arc<CertifiedKey>, String>> = OnceLock::new();
    let key = Arc::clone(KEY.get_or_init(new_key).as_ref().map_err(refused)?);
    let resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(key));
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let mut config = builder.map_err(refused)?.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![protocol(transport)];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let config = QuicServerConfig::try_from(config).map_err(refused)?;
    Ok(quinn_proto::ServerConfig::with_crypto(Arc::new(config)))
}

fn new_key() -> Result<Arc<CertifiedKey>, String> {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|error| error.to_string())?;
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_ref())).map_err(|error| error.to_string())?;
    let public = key.public_key().ok_or("a key without a public key")?.to_vec();
    Ok(Arc::new(CertifiedKey::new(vec![public.into()], key)))
}

/// For an end that accepts any key: the test data is not secret.
pub(super) fn client(transport: Transport) -> Result<quinn_proto::ClientConfig, TrafficError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let key = Arc::new(AnyKey(provider().signature_verification_algorithms));
    let mut config = builder.map_err(refused)?.dangerous().with_custom_certificate_verifier(key).with_no_client_auth();
    config.alpn_protocols = vec![protocol(transport)];
    config.resumption = Resumption::disabled();
    let config = QuicClientConfig::try_from(config).map_err(refused)?;
    Ok(quinn_proto::ClientConfig::new(Arc::new(config)))
}

/// The peer's possession of its key is verified all the same, so that the handshake has its real cost.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The name that a client asks for.
pub(super) const SERVER_NAME: &str = "weir.invalid";

/// The application protocol (ALPN, RFC 7301): an end that reads streams would receive no datagrams.
fn protocol(transport: Transport) -> Vec<u8> {
    format!("weir-{transport}").into_bytes()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn refused(error: impl std::fmt::Display) -> TrafficError {
    TrafficError::Refused(format!("set up TLS for QUIC: {error}"))
}
