//! Classifies IP addresses by the registries of special-purpose addresses (RFC 6890 and its successors).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reach of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The internet.
    Public,
    /// A private network, or this machine.
    Private,
    /// An address that no image may be fetched from.
    Never,
}

/// The IPv4 networks that are not public: the first address, the length of the prefix, and the reach.
const V4: [(Ipv4Addr, u32, Reach); 19] = [
    // This network. A connection to 0.0.0.0 reaches this machine.
    (Ipv4Addr::new(0, 0, 0, 0), 8, Reach::Never),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Reach::Private),
    // The metadata service of Alibaba Cloud, inside the next network.
    (Ipv4Addr::new(100, 100, 100, 200), 32, Reach::Never),
    // Carrier-grade NAT.
    (Ipv4Addr::new(100, 64, 0, 0), 10, Reach::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Reach::Private),
    // The host service of Azure. It has a public address and gives credentials to virtual machines.
    (Ipv4Addr::new(168, 63, 129, 16), 32, Reach::Never),
    // Link-local addresses, with the metadata services of clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16, Reach::Never),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Reach::Private),
    // Protocol assignments.
    (Ipv4Addr::new(192, 0, 0, 0), 24, Reach::Never),
    // Documentation. Two more entries below are for documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24, Reach::Never),
    // 6to4 relays, which are no longer in use.
    (Ipv4Addr::new(192, 88, 99, 0), 24, Reach::Never),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Reach::Private),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15, Reach::Never),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Reach::Never),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Reach::Never),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4, Reach::Never),
    // Reserved addresses. The last one is broadcast.
    (Ipv4Addr::new(240, 0, 0, 0), 4, Reach::Never),
    // AS112 servers for reverse look-ups.
    (Ipv4Addr::new(192, 31, 196, 0), 24, Reach::Never),
    (Ipv4Addr::new(192, 175, 48, 0), 24, Reach::Never),
];

/// The parts of 2000::/3 that are not public. 2000::/3 holds the public IPv6 addresses.
const V6: [(Ipv6Addr, u32); 3] = [
    // Protocol assignments. Teredo is one of them; its addresses contain other addresses.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The metadata services of clouds on otherwise private IPv6 addresses: Amazon's and Google's.
const METADATA: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

pub(super) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    V4.iter()
        .find(|(network, length, _)| {
            let differs = address.to_bits() ^ network.to_bits();
            differs.leading_zeros() >= *length
        })
        .map_or(Reach::Public, |(_, _, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let [a, b, c, d, e, f, g, h] = address.segments();
    // An IPv6 address that contains an IPv4 address has the reach of the IPv4 address.
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => return reach_v4(embedded(g, h)),
        [0x2002, ..] => return reach_v4(embedded(b, c)),
        _ => {}
    }
    if METADATA.contains(&address) {
        return Reach::Never;
    }
    if address.is_loopback() || address.is_unique_local() {
        return Reach::Private;
    }
    let is_within = |network: Ipv6Addr, length: u32| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= length
    };
    let is_special = V6
        .iter()
        .any(|(network, length)| is_within(*network, *length));
    // All other addresses are unspecified, link-local, multicast, local NAT64, an old form of IPv4, or unassigned.
    if a >> 13 == 1 && !is_special {
        Reach::Public
    } else {
        Reach::Never
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_all(expected: Reach, addresses: &str) {
        for text in addresses.split_whitespace() {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn addresses_next_to_special_networks_are_public() {
        assert_all(
            Reach::Public,
            "1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
             168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 \
             192.0.1.0 192.0.3.0 192.88.98.255 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 \
             198.51.99.255 203.0.114.0 223.255.255.255 2000:: 2001:200::1 2001:db7::1 2001:db9::1 \
             2001:4860:4860::8888 2606:4700:4700::1111 3ffe:ffff::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 \
             2002:808:808::1",
        );
    }

    #[test]
    fn private_addresses_are_recognized_in_every_form() {
        assert_all(
            Reach::Private,
            "10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.199 100.127.255.255 127.0.0.1 127.255.255.255 \
             172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 ::1 fc00:: fd00:ec2::253 fdff:ffff::1 \
             ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::192.168.1.1 2002:7f00:1:: 2002:a00:1::1",
        );
    }

    #[test]
    fn forbidden_addresses_are_recognized() {
        assert_all(
            Reach::Never,
            "0.0.0.0 0.255.255.255 168.63.129.16 100.100.100.200 fd00:ec2::254 fd20:ce::254 169.254.0.0 \
             169.254.169.254 169.254.255.255 192.0.0.0 192.0.0.170 192.0.2.1 192.31.196.1 192.88.99.1 \
             192.175.48.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.0 \
             255.255.255.255 :: ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:0.0.0.0 ::ffff:169.254.169.254 ::ffff:0:8.8.8.8 \
             64:ff9b::169.254.169.254 64:ff9b::1:8.8.8.8 64:ff9b:1::1 100::1 1fff:ffff:: 2001::1 2001:10::1 \
             2001:1ff:ffff::1 2001:db8::1 2002:a9fe:a9fe::1 3fff::1 3fff:fff:ffff::1 4000:: 5f00::1 fe80::1 \
             febf::1 fec0::1 ff02::1 ffff::",
        );
    }
}
