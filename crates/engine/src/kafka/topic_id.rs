//! Topic ids: which incarnation of a topic this is.
//!
//! A topic that was deleted and made anew has the same name and other content; only its id tells.
//! `rdkafka` has no call for it, so this file asks librdkafka itself (`rd_kafka_DescribeTopics`).
//! It is the only unsafe file of the engine: every pointer it makes is owned by a guard, every
//! pointer it is lent is read before the guard of its owner ends.

#![allow(unsafe_code, reason = "rdkafka 0.39 has no safe call that returns a topic's id")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys as sys;
use settle_core::position::TopicId;
use uuid::Uuid;

/// Patience beyond the request's own time-out: librdkafka answers every request, with an error if need be.
const ANSWER_SLACK: Duration = Duration::from_secs(2);

/// An object of librdkafka that is ours to destroy.
struct Owned<T> {
    object: *mut T,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Takes over an object that its constructor returned; none if that failed.
    ///
    /// # Safety
    /// `object` is null, or owned by the caller and destroyed by `destroy` alone.
    unsafe fn take(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        (!object.is_null()).then_some(Self { object, destroy })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `take` was promised that the object is ours and that this destroys it; a guard
        // is dropped once.
        unsafe { (self.destroy)(self.object) }
    }
}

/// The ids of `topics`; none for a topic whose broker gives no ids (Kafka before 2.8). One that is not
/// there is an error.
pub(super) fn topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    timeout: Duration,
) -> Result<BTreeMap<String, Option<TopicId>>, RDKafkaErrorCode> {
    ids(client, topics, timeout, false)
}

/// The same of those among `topics` that are there.
pub(super) fn known_topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    timeout: Duration,
) -> Result<BTreeMap<String, Option<TopicId>>, RDKafkaErrorCode> {
    ids(client, topics, timeout, true)
}

fn ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    timeout: Duration,
    may_be_gone: bool,
) -> Result<BTreeMap<String, Option<TopicId>>, RDKafkaErrorCode> {
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let answering = client.fetch_metadata(topics.first().copied(), timeout);
    let broker =
        answering.map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))?.orig_broker_id();
    let event = describe(client, topics, broker, timeout)?;
    // SAFETY: `event` is a live event of type DESCRIBETOPICS_RESULT (checked by `describe`), so
    // the cast inside this call returns it as a result, valid as long as the event.
    let result = unsafe { sys::rd_kafka_event_DescribeTopics_result(event.object) };
    if result.is_null() {
        return Err(RDKafkaErrorCode::Fail);
    }
    let mut count = 0;
    // SAFETY: `result` is live, `count` is a valid place to write to.
    let found = unsafe { sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count) };
    let mut ids = BTreeMap::new();
    for index in 0..count {
        // SAFETY: librdkafka returned an array of `count` pointers, valid as long as the event.
        let topic = unsafe { *found.add(index) };
        match read(topic) {
            Ok((name, id)) => drop(ids.insert(name, id)),
            Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) if may_be_gone => {}
            Err(code) => return Err(code),
        }
    }
    Ok(ids)
}

/// Sends the request and waits for its result.
fn describe<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    broker: i32,
    timeout: Duration,
) -> Result<Owned<sys::rd_kafka_event_t>, RDKafkaErrorCode> {
    let names: Vec<CString> = topics
        .iter()
        .map(|name| CString::new(*name))
        .collect::<Result<_, _>>()
        .map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let native = client.native_ptr();

    // SAFETY: the array has `len` pointers to NUL-terminated names that outlive the call, which
    // copies them; the collection is ours.
    let collection = unsafe {
        let made = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        Owned::take(made, sys::rd_kafka_TopicCollection_destroy)
    };
    // SAFETY: `native` lives as long as `client`, which is borrowed throughout; the options are ours.
    let options = unsafe {
        let made = sys::rd_kafka_AdminOptions_new(native, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        Owned::take(made, sys::rd_kafka_AdminOptions_destroy)
    };
    // SAFETY: as above; the queue is ours.
    let queue = unsafe { Owned::take(sys::rd_kafka_queue_new(native), sys::rd_kafka_queue_destroy) };
    let (Some(collection), Some(options), Some(queue)) = (collection, options, queue) else {
        return Err(RDKafkaErrorCode::CriticalSystemResource);
    };

    let mut why = [0; 256];
    // SAFETY: the options are live, and the buffer is as long as it says.
    check(unsafe {
        sys::rd_kafka_AdminOptions_set_request_timeout(options.object, millis(timeout), why.as_mut_ptr(), why.len())
    })?;
    // Any broker knows; librdkafka would ask the controller, which may be another one that is away.
    if broker >= 0 {
        // SAFETY: as above.
        check(unsafe { sys::rd_kafka_AdminOptions_set_broker(options.object, broker, why.as_mut_ptr(), why.len()) })?;
    }
    // SAFETY: all four are live; the call copies what it needs of collection and options, and
    // holds a reference to the queue until it has answered.
    unsafe { sys::rd_kafka_DescribeTopics(native, collection.object, options.object, queue.object) };
    // SAFETY: the queue is live; the event, if there is one, is ours.
    let event = unsafe {
        let polled = sys::rd_kafka_queue_poll(queue.object, millis(timeout + ANSWER_SLACK));
        Owned::take(polled, sys::rd_kafka_event_destroy)
    };
    let event = event.ok_or(RDKafkaErrorCode::OperationTimedOut)?;
    // SAFETY: the event is live.
    let kind = unsafe { sys::rd_kafka_event_type(event.object) };
    if kind != sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT {
        return Err(RDKafkaErrorCode::Fail);
    }
    // SAFETY: the event is live.
    check(unsafe { sys::rd_kafka_event_error(event.object) })?;
    Ok(event)
}

/// Name and id of one described topic.
fn read(topic: *const sys::rd_kafka_TopicDescription_t) -> Result<(String, Option<TopicId>), RDKafkaErrorCode> {
    if topic.is_null() {
        return Err(RDKafkaErrorCode::Fail);
    }
    // SAFETY: `topic` points into a live event, as do the strings, the error and the id it holds;
    // the error may be null, which stands for none.
    let (name, error, id) = unsafe {
        let name = sys::rd_kafka_TopicDescription_name(topic);
        let error = sys::rd_kafka_TopicDescription_error(topic);
        (name, sys::rd_kafka_error_code(error), sys::rd_kafka_TopicDescription_topic_id(topic))
    };
    check(error)?;
    if name.is_null() || id.is_null() {
        return Err(RDKafkaErrorCode::Fail);
    }
    // SAFETY: not null, NUL-terminated, valid as long as the event.
    let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    // SAFETY: not null, valid as long as the event.
    let (high, low) =
        unsafe { (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id)) };
    let id = Uuid::from_u64_pair(high.cast_unsigned(), low.cast_unsigned());
    Ok((name.to_owned(), (!id.is_nil()).then_some(TopicId(id))))
}

fn check(code: RDKafkaRespErr) -> Result<(), RDKafkaErrorCode> {
    match RDKafkaErrorCode::from(code) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(code),
    }
}

fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}
