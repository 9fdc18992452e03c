//! Decides which URLs may be fetched and which addresses may be connected to.
//!
//! A caller chooses the URL, and the server connects from inside a network that the caller may not reach. Without a
//! guard, any caller could read what only this machine can reach. The guard therefore checks the URL itself, and then
//! every address of its host before a connection.

use std::net::IpAddr;

use facescan_config::{HostPattern, Scheme, Urls};
use url::{Host, Url};

use self::addresses::Reach;

mod addresses;

/// Why a URL is not fetched. It never contains an address, because a caller could map a network with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum Refused {
    #[error(
        "urls are not fetched here: send the image's bytes, or set `urls.enabled` on the server"
    )]
    Off,
    #[error("only {} urls are allowed here; the setting `urls.schemes` names the schemes", .0)]
    Scheme(&'static str),
    #[error("a url with a user or a password is not allowed: remove them")]
    Credentials,
    #[error("urls of this host are not allowed here; the setting `urls.hosts` names the hosts")]
    Host,
    #[error("this host is not public; the setting `urls.allow_private` allows private networks")]
    Address,
    #[error("the url redirects to a url that is not fetched here")]
    Redirect,
}

/// The rules of the settings.
#[derive(Clone, Debug)]
pub struct Guard {
    schemes: Vec<Scheme>,
    hosts: Vec<HostPattern>,
    allow_private: bool,
}

impl Guard {
    /// Creates the guard from section `urls`.
    pub fn new(urls: &Urls) -> Self {
        Self {
            schemes: urls.schemes.clone(),
            hosts: urls.hosts.clone(),
            allow_private: urls.allow_private,
        }
    }

    /// Checks the scheme and the host of a URL, and the address if the host is an address. The addresses of a name are
    /// checked when the name is resolved.
    ///
    /// # Errors
    /// Returns the reason if the URL must not be fetched.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        if !self
            .schemes
            .iter()
            .any(|scheme| scheme.name() == url.scheme())
        {
            return Err(Refused::Scheme(self.scheme_names()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        let host = url.host().ok_or(Refused::Host)?;
        if !self.hosts.is_empty() && !self.hosts.iter().any(|pattern| pattern.matches(&host)) {
            return Err(Refused::Host);
        }
        // `Url` has parsed every spelling of an address: 127.1, 0x7f000001, 2130706433, 0177.0.0.1.
        match host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.check_address(address.into()),
            Host::Ipv6(address) => self.check_address(address.into()),
        }
    }

    /// Checks an address before a connection to it.
    ///
    /// # Errors
    /// Returns [`Refused::Address`] if the rules forbid the address.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refused> {
        match addresses::reach(address) {
            Reach::Public => Ok(()),
            Reach::Private if self.allow_private => Ok(()),
            Reach::Private | Reach::Never => Err(Refused::Address),
        }
    }

    fn scheme_names(&self) -> &'static str {
        match self.schemes.as_slice() {
            [Scheme::Https] => "https",
            [Scheme::Http] => "http",
            _ => "https and http",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_config::{Config, Sources};

    fn guard(change: impl FnOnce(&mut Urls)) -> Guard {
        let mut urls = Config::load(&Sources::default()).unwrap().0.urls;
        change(&mut urls);
        Guard::new(&urls)
    }

    fn check(guard: &Guard, url: &str) -> Result<(), Refused> {
        guard.check(&Url::parse(url).unwrap())
    }

    #[test]
    fn by_default_every_public_host_is_allowed_over_https() {
        let guard = guard(|_| {});
        for url in [
            "https://example.com/a.jpg",
            "HTTPS://93.184.215.14:8443/",
            "https://[2606:2800:21f::1]/a",
        ] {
            assert_eq!(check(&guard, url), Ok(()), "{url}");
        }
        for (url, refused) in [
            ("http://example.com/a.jpg", Refused::Scheme("https")),
            ("ftp://example.com/a.jpg", Refused::Scheme("https")),
            ("file:///etc/passwd", Refused::Scheme("https")),
            ("data:image/png;base64,AAAA", Refused::Scheme("https")),
            ("https://user@example.com/", Refused::Credentials),
            ("https://:secret@example.com/", Refused::Credentials),
        ] {
            assert_eq!(check(&guard, url), Err(refused), "{url}");
        }
    }

    #[test]
    fn an_address_is_checked_in_every_spelling() {
        let guard = guard(|_| {});
        let hosts = "127.0.0.1 127.1 127.0.0.1. 2130706433 0x7f000001 0x7f.1 0177.0.0.1 %31%32%37.0.0.1 １２７.０.０.１ 0 \
            [::1] [::] [::ffff:127.0.0.1] [::ffff:a00:1] [64:ff9b::10.0.0.1] [fe80::1] 169.254.169.254 \
            0xa9fea9fe";
        for host in hosts.split_whitespace() {
            let url = format!("https://{host}/a.jpg");
            assert_eq!(check(&guard, &url), Err(Refused::Address), "{host}");
        }
    }

    #[test]
    fn only_named_hosts_are_allowed_and_they_must_be_public() {
        let named = |allow_private| {
            guard(|urls| {
                urls.hosts = ["*.example.com", "10.0.0.8"]
                    .map(|host| HostPattern::try_from(host.to_owned()).unwrap())
                    .into();
                urls.allow_private = allow_private;
            })
        };
        let guard = named(false);
        assert_eq!(check(&guard, "https://a.example.com/"), Ok(()));
        assert_eq!(check(&guard, "https://example.org/"), Err(Refused::Host));
        assert_eq!(check(&guard, "https://10.0.0.8/"), Err(Refused::Address));
        let guard = named(true);
        assert_eq!(check(&guard, "https://10.0.0.8/"), Ok(()));
        assert_eq!(check(&guard, "https://10.0.0.9/"), Err(Refused::Host));
    }
}
