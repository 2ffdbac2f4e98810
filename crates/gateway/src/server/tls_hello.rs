//! Reads the greeting of a TLS client for the name of the server that it wants.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// A greeting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The server's name in lower case.
    pub(super) name: Option<String>,
    /// The bytes that were read, to be forwarded.
    pub(super) bytes: Vec<u8>,
}

/// Reads one TLS record, which has to hold the whole greeting.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
    let mut bytes = vec![0; 5];
    from.read_exact(&mut bytes).await?;
    let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    // A handshake record of TLS.
    if bytes[0] != 22 || bytes[1] != 3 || length == 0 || length > 1 << 14 {
        return Err(io::Error::other("no TLS greeting"));
    }
    bytes.resize(5 + length, 0);
    from.read_exact(&mut bytes[5..]).await?;
    let name = server_name(&bytes[5..]);
    Ok(Hello { name, bytes })
}

/// The name in the `server_name` extension.
fn server_name(hello: &[u8]) -> Option<String> {
    let mut message = HelloReader(hello);
    if message.take(1)? != [1] {
        return None;
    }
    message.take(3)?;
    message.take(2 + 32)?;
    message.prefixed(1)?;
    message.prefixed(2)?;
    message.prefixed(1)?;
    let mut extensions = HelloReader(message.prefixed(2)?);
    loop {
        let kind = extensions.take(2)?;
        let body = extensions.prefixed(2)?;
        if kind == [0, 0] {
            let mut names = HelloReader(HelloReader(body).prefixed(2)?);
            let host = names.take(1)? == [0];
            let name = names.prefixed(2)?;
            let text = std::str::from_utf8(name).ok().filter(|_| host)?;
            return Some(text.to_ascii_lowercase());
        }
    }
}

struct HelloReader<'a>(&'a [u8]);

impl<'a> HelloReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes what a length of so many bytes announces.
    fn prefixed(&mut self, width: usize) -> Option<&'a [u8]> {
        let length = self.take(width)?;
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};

    use super::*;

    fn greeting(name: &'static str) -> Vec<u8> {
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = name.try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[tokio::test]
    async fn server_name_is_read_and_bytes_are_kept() {
        let bytes = greeting("files.example.org");
        let hello = read(&mut &bytes[..]).await.unwrap();
        assert_eq!(hello.name.as_deref(), Some("files.example.org"));
        assert_eq!(hello.bytes, bytes);
        let unnamed = read(&mut &greeting("127.0.0.1")[..]).await.unwrap();
        assert_eq!(unnamed.name, None);
    }

    #[tokio::test]
    async fn other_bytes_are_an_error() {
        assert!(read(&mut &b"GET / HTTP/1.1\r\n"[..]).await.is_err());
        assert!(read(&mut &greeting("a.org")[..40]).await.is_err());
    }

    proptest! {
        #[test]
        fn no_input_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = server_name(&bytes);
        }
    }
}
