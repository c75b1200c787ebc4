//! Who is at the other end of a socket, by the system's word.

use std::io;
use std::os::fd::AsFd;

/// The user of the process that connected, or that listens.
///
/// # Errors
/// The system's.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn uid(socket: &impl AsFd) -> io::Result<u32> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    Ok(getsockopt(socket, PeerCredentials)?.uid())
}

/// The user of the process that connected, or that listens.
///
/// # Errors
/// The system's.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn uid(socket: &impl AsFd) -> io::Result<u32> {
    Ok(nix::unistd::getpeereid(socket).map(|(user, _)| user.as_raw())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_of_our_own_is_us() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(uid(&one).unwrap(), nix::unistd::geteuid().as_raw());
    }
}
