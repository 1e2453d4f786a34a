//! The few requests of Kafka's protocol that no client library offers, byte by byte: another
//! client than the one under test.

use std::io::{Read, Write};
use std::net::TcpStream;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use settle_testkit::services;
use uuid::Uuid;

use crate::stage::LIMIT;

const METADATA: i16 = 3;
const LEAVE_GROUP: i16 = 13;

/// Sends a request and gives the response behind its correlation id.
fn ask(key: i16, version: i16, flexible: bool, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(7_i32.to_be_bytes());
    request.extend((-1_i16).to_be_bytes()); // no client id
    if flexible {
        request.push(0); // no tagged fields
    }
    request.extend(body);
    let mut stream = TcpStream::connect(services::kafka()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&i32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut response = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(response[..4], 7_i32.to_be_bytes());
    response.split_off(4)
}

struct Response<'a>(&'a [u8]);

impl<'a> Response<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// Lengths in flexible versions: one more than the length, 0 for null.
    fn compact_length(&mut self) -> usize {
        let byte = self.take(1)[0];
        assert!(byte < 128, "a length of one byte");
        usize::from(byte).saturating_sub(1)
    }

    fn compact_string(&mut self) -> &'a [u8] {
        let length = self.compact_length();
        self.take(length)
    }
}

/// The id of a topic, from a Metadata request of version 12.
pub fn topic_id(topic: &str) -> Uuid {
    let mut body = vec![2]; // one topic
    body.extend([0; 16]); // by name, not by id
    body.push(u8::try_from(topic.len() + 1).unwrap());
    body.extend(topic.as_bytes());
    body.push(0); // no tagged fields of the topic
    body.extend([0, 0, 0]); // create nothing, no operations, no tagged fields
    let answer = ask(METADATA, 12, true, &body);
    let mut response = Response(&answer);
    response.take(1 + 4); // tagged fields of the header, throttle time
    for _ in 0..response.compact_length() {
        response.take(4); // broker id
        response.compact_string(); // host
        response.take(4); // port
        response.compact_string(); // rack
        response.take(1); // tagged fields
    }
    response.compact_string(); // cluster id
    response.take(4); // controller
    assert_eq!(response.compact_length(), 1, "one topic");
    assert_eq!(response.take(2), [0, 0], "no error");
    assert_eq!(response.compact_string(), topic.as_bytes());
    Uuid::from_slice(response.take(16)).unwrap()
}

/// The members of a group.
pub fn members(group: &str) -> Vec<String> {
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", services::kafka()).set("group.id", "wire").create().unwrap();
    let groups = client.fetch_group_list(Some(group), LIMIT).unwrap();
    groups.groups().iter().flat_map(|group| group.members()).map(|member| member.id().to_owned()).collect()
}

/// Removes a member from its group, as an administrator may.
pub fn remove_member(group: &str, member: &str) {
    let mut body = Vec::new();
    let string = |text: &str, body: &mut Vec<u8>| {
        body.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.as_bytes());
    };
    string(group, &mut body);
    body.extend(1_i32.to_be_bytes());
    string(member, &mut body);
    body.extend((-1_i16).to_be_bytes()); // no instance id
    let answer = ask(LEAVE_GROUP, 3, false, &body);
    assert_eq!(answer[4..6], [0, 0], "no error");
}
