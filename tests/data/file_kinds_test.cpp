#include "data/file_kinds.h"

#include <gtest/gtest.h>

#include <string>

namespace autotrain {
namespace {

std::span<const uint8_t> bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(FileKinds, WhatIsNoUtf8IsFoundWhereItStands) {
  for (const std::string good : {"", "plain", "\xc2\x80\xdf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80",
                                 "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "cut \xe2\x82"}) {
    EXPECT_EQ(first_invalid_utf8(bytes(good)), good.size()) << good;
  }
  for (const std::string bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                                "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5", "\xff", "\xc3("}) {
    EXPECT_EQ(first_invalid_utf8(bytes("ok" + bad + "more")), 2U) << bad;
  }
  EXPECT_EQ(first_invalid_utf8(bytes("a\x80\x80z"), 2), 2U);
}

TEST(FileKinds, TextIsWhatHasNoControlCharacters) {
  EXPECT_TRUE(is_text(bytes(std::string(100, 'x') + "\n\ttab")));
  EXPECT_FALSE(is_text(bytes(std::string(100, 'x') + '\x01')));
  EXPECT_FALSE(is_text(bytes(std::string(100, 'x') + "\xff")));
  EXPECT_FALSE(is_text(bytes("short")));
}

TEST(FileKinds, EncodingsAreToldByTheirMarks) {
  EXPECT_EQ(encoding_of_text(bytes("\xef\xbb\xbfid,x")).name, "a byte order mark");
  EXPECT_EQ(encoding_of_text(bytes(std::string("\xff\xfe"
                                               "a\0",
                                               4)))
                .name,
            "UTF-16");
  EXPECT_EQ(encoding_of_text(bytes(std::string("\xff\xfe\0\0", 4))).name, "UTF-32");
  EXPECT_EQ(encoding_of_text(bytes("plain")).name, "");
  EXPECT_EQ(kind_of_file(bytes("\x1f\x8b\x08")).name, "a gzip file");
}

TEST(FileKinds, TextThatIsNoneToBeReadAsItStandsIsTold) {
  for (const char* const json :
       {"{\"text\": 1}\n", "\xef\xbb\xbf{ \"text\": 1}", "[{\"a\": 1}]", "[\n  {\n  \"a\": 1}]"})
    EXPECT_EQ(format_of_text(json).name, "JSON") << json;
  EXPECT_EQ(format_of_text("version https://git-lfs.github.com/spec/v1\n").cure,
            "get the file itself: git lfs pull");
  EXPECT_EQ(format_of_text("%PDF-1.7\n").name, "a PDF file");
  for (const char* const page : {"\n<!DOCTYPE html>", "<HTML>", "<?xml version"})
    EXPECT_EQ(format_of_text(page).name, "a page of HTML or XML") << page;
  for (const char* const plain : {"", "{", "[1, 2]", "{x}", "<b>bold</b>", "x,y\n1,2\n", "[{x}]"})
    EXPECT_EQ(format_of_text(plain).name, "") << plain;
}

}  // namespace
}  // namespace autotrain
