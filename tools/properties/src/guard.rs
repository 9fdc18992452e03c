//! URLs that a caller names.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use facescan_config::{Config, HostPattern, Scheme, Sources, Urls};
use facescan_pipeline::ingest::guard::{Guard, Refused};
use url::{Host, Url};

struct Rules {
    guard: Guard,
    urls: Urls,
}

/// The default rules, rules that allow private networks over both schemes, and rules that name hosts.
static RULES: LazyLock<[Rules; 3]> = LazyLock::new(|| {
    let named = ["*.example.com", "10.0.0.8", "[fd12::1]"];
    let hosts = named.map(|host| HostPattern::try_from(host.to_owned()).expect("a host"));
    [
        rules(|_| {}),
        rules(|urls| {
            urls.allow_private = true;
            urls.schemes = vec![Scheme::Https, Scheme::Http];
        }),
        rules(|urls| {
            urls.allow_private = true;
            urls.hosts = hosts.into();
        }),
    ]
});

fn rules(change: impl FnOnce(&mut Urls)) -> Rules {
    let (config, _) = Config::load(&Sources::default()).expect("the defaults are valid");
    let mut urls = config.urls;
    change(&mut urls);
    Rules {
        guard: Guard::new(&urls),
        urls,
    }
}

/// A URL that the guard accepts has an allowed scheme and host, no credentials, and no forbidden address in any spelling.
/// Sixteen bytes are also an address, and an address has the same verdict in every form.
pub fn url_guard(input: &[u8]) {
    if let Some(bits) = input.first_chunk::<16>() {
        check_address(Ipv6Addr::from(*bits));
    }
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    if let Ok(pattern) = HostPattern::try_from(text.to_owned()) {
        check_pattern(text, &pattern);
    }
    let Ok(url) = Url::parse(text) else {
        return;
    };
    for rules in RULES.iter() {
        let decision = rules.guard.check(&url);
        if decision.is_ok() {
            check_accepted(rules, &url);
        }
        // What is sent to the network is the text of the URL.
        let again = Url::parse(url.as_str()).expect("the text of a URL is a URL");
        assert_eq!(rules.guard.check(&again), decision, "{url}");
        let mut named = url.clone();
        if named.set_username("user").is_ok() {
            assert!(rules.guard.check(&named).is_err(), "{named}");
        }
    }
}

fn check_accepted(rules: &Rules, url: &Url) {
    let schemes = &rules.urls.schemes;
    assert!(
        schemes.iter().any(|scheme| scheme.name() == url.scheme()),
        "{url}"
    );
    assert!(!url.authority().contains('@'), "{url} has credentials");
    let host = url.host().expect("an accepted URL has a host");
    let hosts = &rules.urls.hosts;
    assert!(
        hosts.is_empty() || hosts.iter().any(|pattern| pattern.matches(&host)),
        "{url}"
    );
    let address = match host {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(name) => {
            // A resolver could read such a name as an address, and skip the check of addresses.
            assert!(name.parse::<IpAddr>().is_err(), "{name} is an address");
            return;
        }
    };
    assert!(!is_never_public(address), "{url} has a forbidden address");
    assert!(
        rules.urls.allow_private || !is_private(address),
        "{url} is private"
    );
}

/// The response for an address does not depend on its form: IPv4, IPv4 in IPv6, NAT64 or 6to4.
fn check_address(address: Ipv6Addr) {
    let [.., a, b, c, d] = address.octets();
    let inner = Ipv4Addr::new(a, b, c, d);
    for Rules { guard, urls } in RULES.iter() {
        let decision = guard.check_address(IpAddr::V6(address));
        if decision.is_ok() {
            assert!(!is_never_public(IpAddr::V6(address)), "{address}");
            assert!(
                urls.allow_private || !is_private(IpAddr::V6(address)),
                "{address}"
            );
        }
        let decision = guard.check_address(IpAddr::V4(inner));
        if decision.is_ok() {
            assert!(!is_never_public(IpAddr::V4(inner)), "{inner}");
        }
        let [high, low] = [[a, b], [c, d]].map(u16::from_be_bytes);
        for same in [
            inner.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            assert_eq!(
                guard.check_address(IpAddr::V6(same)),
                decision,
                "{inner} as {same}"
            );
        }
        // The guard says of an address in a URL what it says of the address.
        let url = Url::parse(&format!("https://{inner}/")).expect("an address is a host");
        let expected = match urls.hosts.is_empty() {
            true => decision,
            false if url.host_str() == Some("10.0.0.8") => decision,
            false => Err(Refused::Host),
        };
        assert_eq!(guard.check(&url), expected, "{url}");
    }
}

/// A pattern for one host matches this host. A pattern for the hosts below a domain matches one below it, and not the
/// domain.
fn check_pattern(text: &str, pattern: &HostPattern) {
    let matches = |host: &str| {
        let url = Url::parse(&format!("https://{host}/")).ok()?;
        Some(pattern.matches(&url.host()?))
    };
    match text.strip_prefix("*.") {
        None => assert_eq!(matches(text), Some(true), "{text} matches itself"),
        Some(domain) => {
            assert_eq!(matches(domain), Some(false), "{text} and its domain");
            let below = format!("a.{domain}");
            assert_ne!(matches(&below), Some(false), "{text} and {below}");
        }
    }
}

/// Returns whether the standard library names the address as one that reaches no public host and no private one.
fn is_never_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4.is_documentation()
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_never_public(IpAddr::V4(v4)),
            None => v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local(),
        },
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(IpAddr::V4(v4)),
            None => v6.is_loopback() || v6.is_unique_local(),
        },
    }
}
