//! Sockets with a path on this machine: Unix sockets, and loopback ports with a secret on Windows. The gateway and
//! agents' control sockets listen on them; connections out of containers end there. Depends on nothing of ours.

#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

pub use sys::{Bound, Listener, Stream, Unattached, connect};

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn clients_connect_in_turn_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way in.sock");
        assert!(connect(&path).await.is_err(), "no listener yet");
        let mut listener = Listener::bind(&path).unwrap();
        for word in [b"one", b"two"] {
            let asking = async {
                let mut stream = connect(&path).await.unwrap();
                stream.write_all(word).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.unwrap();
                answer
            };
            let answering = async {
                let mut stream = listener.accept().await.unwrap();
                let mut asked = [0; 3];
                stream.read_exact(&mut asked).await.unwrap();
                stream.write_all(&asked).await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let (answer, ()) = tokio::join!(asking, answering);
            assert_eq!(answer, word);
        }
    }

    #[cfg(windows)]
    #[tokio::test]
    async fn clients_without_the_secret_are_refused_without_blocking_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way in");
        let mut listener = Listener::bind(&path).unwrap();
        let file = std::fs::read(&path).unwrap();
        let address = ("127.0.0.1", u16::from_le_bytes([file[0], file[1]]));
        let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut wrong = tokio::net::TcpStream::connect(address).await.unwrap();
        wrong.write_all(&[7; 40]).await.unwrap();
        let mut right = connect(&path).await.unwrap();
        right.write_all(b"!").await.unwrap();
        let mut stream = listener.accept().await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'!');
    }
}
