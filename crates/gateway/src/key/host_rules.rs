//! Rules for the hosts that a key may connect to: names, `*.name`, addresses and networks.

use std::net::IpAddr;

use crate::error::GatewayError;

/// The rules of one key. Without rules no host is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostRules(Vec<HostRule>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    Name(String),
    /// Everything below this name, which begins with a dot.
    Below(String),
    Network(IpAddr, u8),
}

impl HostRules {
    pub(crate) fn parse(rules: &[String]) -> Result<Self, GatewayError> {
        rules
            .iter()
            .map(|rule| parse(rule))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a client may connect to a host, given as a lower-case name or an address.
    pub(crate) fn allow(&self, host: &str) -> bool {
        if let Ok(address) = host.parse() {
            return self.names_address(address);
        }
        self.0.iter().any(|rule| match rule {
            HostRule::Name(name) => name == host,
            HostRule::Below(end) => host.len() > end.len() && host.ends_with(end),
            HostRule::Network(..) => false,
        })
    }

    /// Whether a name may resolve to this address. Local and private addresses need a rule of their own,
    /// because the owner of a name can let it point anywhere.
    pub(crate) fn allow_address(&self, address: IpAddr) -> bool {
        is_public(address) || self.names_address(address)
    }

    fn names_address(&self, address: IpAddr) -> bool {
        self.0.iter().any(|rule| match rule {
            HostRule::Network(network, bits) => contains(*network, *bits, address),
            HostRule::Name(_) | HostRule::Below(_) => false,
        })
    }
}

fn parse(rule: &str) -> Result<HostRule, GatewayError> {
    let wrong = || GatewayError::HostRule {
        rule: rule.to_owned(),
    };
    if let Ok(address) = rule.parse::<IpAddr>() {
        return Ok(HostRule::Network(address, width(address)));
    }
    if let Some((address, bits)) = rule.split_once('/') {
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let fits = bits <= width(address);
        return fits
            .then_some(HostRule::Network(address, bits))
            .ok_or_else(wrong);
    }
    let lower = rule.to_ascii_lowercase();
    let (name, below) = match lower.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (lower.as_str(), false),
    };
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    if !name.split('.').all(part) {
        return Err(wrong());
    }
    Ok(if below {
        HostRule::Below(format!(".{name}"))
    } else {
        HostRule::Name(name.to_owned())
    })
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let address = address.to_canonical();
    if network.is_ipv4() != address.is_ipv4() {
        return false;
    }
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    (number(network) ^ number(address)) & mask == 0
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let carrier = a == 100 && (64..128).contains(&b);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_multicast()
                || carrier
                || a == 0)
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[&str]) -> HostRules {
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        HostRules::parse(&rules).unwrap()
    }

    #[test]
    fn rules_match_names_wildcards_addresses_and_networks() {
        let rules = rules(&[
            "files.example.org",
            "*.Example.com",
            "10.1.0.0/16",
            "2001:db8::1",
        ]);
        for host in [
            "files.example.org",
            "a.example.com",
            "a.b.example.com",
            "10.1.2.3",
            "2001:db8::1",
        ] {
            assert!(rules.allow(host), "{host}");
        }
        for host in [
            "x.files.example.org",
            "example.com",
            "badexample.com",
            "10.2.0.1",
            "2001:db8::2",
            "",
        ] {
            assert!(!rules.allow(host), "{host}");
        }
        assert!(!HostRules::default().allow("files.example.org"));
    }

    #[test]
    fn name_must_not_resolve_to_a_private_address() {
        let plain = rules(&["files.example.org"]);
        for address in [
            "127.0.0.1",
            "169.254.169.254",
            "192.168.1.1",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!plain.allow_address(address.parse().unwrap()), "{address}");
        }
        assert!(plain.allow_address("151.101.0.223".parse().unwrap()));
        assert!(rules(&["127.0.0.0/8"]).allow_address("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn invalid_rule_is_an_error() {
        for rule in [
            "",
            "*",
            "*.",
            "a b",
            "http://x",
            "10.0.0.0/33",
            "x/8",
            "a..b",
            "a.*",
        ] {
            assert!(HostRules::parse(&[rule.to_owned()]).is_err(), "{rule}");
        }
    }
}
