//! The user of a job: names are resolved with the container's own files, as engines do.

use std::fs;

use crate::JobFailure;

/// A user of the container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerUser {
    pub(super) id: u32,
    pub(super) group: u32,
    /// The other groups it is a member of.
    pub(super) groups: Vec<u32>,
    /// Its home, if it has one.
    pub(super) home: Option<String>,
}

/// The user that `spec` (`user`, `user:group`, by name or number) means in this container.
pub(super) fn find(spec: &str) -> Result<ContainerUser, JobFailure> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let user = parse(spec, &read("/etc/passwd"), &read("/etc/group"));
    user.ok_or_else(|| JobFailure::UserUnknown {
        user: spec.to_owned(),
    })
}

fn parse(spec: &str, passwd: &str, group: &str) -> Option<ContainerUser> {
    let (user, wanted) = match spec.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (spec, None),
    };
    let by_name = |fields: &Vec<&str>| fields[0] == user;
    let by_id = |fields: &Vec<&str>| fields.get(2) == Some(&user);
    let entry = rows(passwd).find(by_name);
    let entry = entry.or_else(|| rows(passwd).find(by_id));
    let number = |at: usize| entry.as_ref()?.get(at)?.parse().ok();
    let id = number(2).or_else(|| user.parse().ok())?;
    // A group that is asked for replaces all others.
    if let Some(wanted) = wanted {
        return Some(ContainerUser {
            id,
            group: group_id(wanted, group)?,
            groups: Vec::new(),
            home: home(entry.as_ref()),
        });
    }
    let name = entry.as_ref().map(|fields| fields[0]);
    Some(ContainerUser {
        id,
        group: number(3).unwrap_or(0),
        groups: name.map_or_else(Vec::new, |name| groups_of(name, group)),
        home: home(entry.as_ref()),
    })
}

fn rows(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().map(|line| line.split(':').collect())
}

fn home(entry: Option<&Vec<&str>>) -> Option<String> {
    let home = entry?.get(5)?;
    (!home.is_empty()).then(|| (*home).to_owned())
}

fn group_id(wanted: &str, group: &str) -> Option<u32> {
    let entry = rows(group).find(|fields| fields[0] == wanted);
    match entry {
        Some(fields) => fields.get(2)?.parse().ok(),
        None => wanted.parse().ok(),
    }
}

fn groups_of(name: &str, group: &str) -> Vec<u32> {
    let is_member = |fields: &Vec<&str>| {
        let members = fields.get(3).copied().unwrap_or_default();
        members.split(',').any(|member| member == name)
    };
    let id = |fields: Vec<&str>| fields.get(2)?.parse().ok();
    rows(group).filter(is_member).filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1001::/home/agent:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:agent,other\nagent:x:1001:\ntools:x:60:agent\n";

    #[track_caller]
    fn check(spec: &str, expect: Option<(u32, u32, &[u32], Option<&str>)>) {
        let user = parse(spec, PASSWD, GROUP);
        let seen = user
            .as_ref()
            .map(|user| (user.id, user.group, &user.groups[..], user.home.as_deref()));
        assert_eq!(seen, expect);
    }

    #[test]
    fn a_name_has_its_groups_and_its_home() {
        check("agent", Some((1000, 1001, &[50, 60], Some("/home/agent"))));
        check("1000", Some((1000, 1001, &[50, 60], Some("/home/agent"))));
    }

    #[test]
    fn requested_group_replaces_all_others() {
        check("agent:staff", Some((1000, 50, &[], Some("/home/agent"))));
        check("agent:7", Some((1000, 7, &[], Some("/home/agent"))));
    }

    #[test]
    fn a_number_needs_no_entry_but_a_name_does() {
        check("4242", Some((4242, 0, &[], None)));
        check("missing-user", None);
        check("agent:no-such-group", None);
    }
}
