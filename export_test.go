package throttle

// For tests in throttle_test, which can import throttletest.
var Short = short
