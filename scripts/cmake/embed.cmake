# cmake -D OUTPUT=x.cpp -D FILES=a;b -P embed.cmake: a C++ file with the texts of files, by their names.
set(code "#include \"report/page_parts.h\"\n\nnamespace autotrain::page {\nnamespace {\n")
set(rows "")
set(index 0)
foreach(file ${FILES})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  get_filename_component(name ${file} NAME)
  string(APPEND code "constexpr unsigned char kPart${index}[] = {${bytes}0};\n")
  string(APPEND rows
    "  if (name == \"${name}\") return {reinterpret_cast<const char*>(kPart${index}), sizeof kPart${index} - 1};\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND code "}  // namespace\n\nstd::string_view part(std::string_view name) {\n${rows}  return {};\n}\n\n"
  "}  // namespace autotrain::page\n")
file(WRITE ${OUTPUT} "${code}")
